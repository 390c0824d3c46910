package substrate

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"

	"golang.org/x/crypto/blake2b"
)

// The one form of extrinsic that is made here: version 4, signed.
const (
	xtVersion = 4
	xtSigned  = 0x80 | xtVersion
	// signatures above this size sign the payload's hash instead.
	maxPayload = 256

	addressID      = 0 // MultiAddress::Id
	schemeSr25519  = 1 // MultiSignature::Sr25519
	optionNone     = 0
	metadataHashNo = 0 // CheckMetadataHash: off
)

// Hash is a block's or an extrinsic's.
type Hash [32]byte

// Signer signs extrinsics; a key of package wallet is one.
type Signer interface {
	Sign(message []byte) ([64]byte, error)
}

// Signing is what a signature binds an extrinsic to.
type Signing struct {
	SpecVersion uint32
	TxVersion   uint32
	Genesis     Hash
	Nonce       uint32
	Era         Era
}

// Era is when an extrinsic can get into a block: in one of the Period blocks from Birth on.
// Period is a power of two from 4 to 4096. The zero Era never ends: once the account was
// reaped and began anew, anybody could send the extrinsic again.
type Era struct {
	Period uint64
	Birth  Head
}

// append writes an era as Substrate's runtimes read it (sp_runtime::generic::Era).
func (e Era) append(extra []byte) []byte {
	if e.Period == 0 {
		return append(extra, 0)
	}
	phase := e.Birth.Number % e.Period
	return binary.LittleEndian.AppendUint16(extra, uint16(bits.TrailingZeros64(e.Period)-1)|uint16(phase)<<4)
}

// birth is the hash that is signed: of the birth block, or the genesis of what never ends.
func (s Signing) birth() Hash {
	if s.Era.Period == 0 {
		return s.Genesis
	}
	return s.Era.Birth.Hash
}

// UnknownExtensionError says that the chain wants something signed that this
// client does not know: guessing it would sign blindly.
type UnknownExtensionError struct{ Name string }

func (e *UnknownExtensionError) Error() string {
	return fmt.Sprintf("the chain's extrinsics carry an extension %q that this version does not know", e.Name)
}

// Call encodes a call of a pallet.
func (m *Metadata) Call(palletName, name string, args map[string]any) ([]byte, error) {
	p, err := m.pallet(palletName)
	if err != nil {
		return nil, err
	}
	var def *variant
	if p.calls >= 0 {
		def = m.types[p.calls].variant(name)
	}
	if def == nil {
		return nil, fmt.Errorf("the chain has no call %s.%s", palletName, name)
	}
	out, err := m.types.encodeFields([]byte{p.index, def.index}, def.fields, args, 0)
	if err != nil {
		return nil, fmt.Errorf("encode call %s.%s: %w", palletName, name, err)
	}
	return out, nil
}

// SignExtrinsic puts a call, its extensions and a signature together, length in
// front, as nodes take it.
func (m *Metadata) SignExtrinsic(call []byte, account [32]byte, signer Signer, s Signing) ([]byte, error) {
	if !slices.Contains(m.xtVersions, xtVersion) {
		return nil, fmt.Errorf("the chain takes extrinsics of versions %v, this client makes version %d", m.xtVersions, xtVersion)
	}
	extra, implicit, err := m.extend(s)
	if err != nil {
		return nil, err
	}
	signature, err := signer.Sign(payload(call, extra, implicit))
	if err != nil {
		return nil, err
	}
	body := append([]byte{xtSigned, addressID}, account[:]...)
	body = append(append(body, schemeSr25519), signature[:]...)
	body = append(append(body, extra...), call...)
	return append(AppendCompact(nil, uint64(len(body))), body...), nil
}

// payload is what is signed.
func payload(call, extra, implicit []byte) []byte {
	out := slices.Concat(call, extra, implicit)
	if len(out) > maxPayload {
		sum := blake2b.Sum256(out)
		return sum[:]
	}
	return out
}

// extend walks the chain's extensions in its order.
func (m *Metadata) extend(s Signing) (extra, implicit []byte, err error) {
	for _, x := range m.extensions {
		switch x.name {
		case "CheckSpecVersion":
			implicit = binary.LittleEndian.AppendUint32(implicit, s.SpecVersion)
		case "CheckTxVersion":
			implicit = binary.LittleEndian.AppendUint32(implicit, s.TxVersion)
		case "CheckGenesis":
			implicit = append(implicit, s.Genesis[:]...)
		case "CheckMortality", "CheckEra":
			birth := s.birth()
			extra = s.Era.append(extra)
			implicit = append(implicit, birth[:]...)
		case "CheckNonce":
			extra = AppendCompact(extra, uint64(s.Nonce))
		case "ChargeTransactionPayment", "ChargeTransactionPaymentWrapper":
			extra = AppendCompact(extra, 0) // no tip
		case "CheckMetadataHash":
			extra = append(extra, metadataHashNo)
			implicit = append(implicit, optionNone)
		default:
			if !m.types.empty(x.extra) || !m.types.empty(x.implicit) {
				return nil, nil, &UnknownExtensionError{x.name}
			}
		}
	}
	return extra, implicit, nil
}

// ExtrinsicHash is how nodes name an extrinsic.
func ExtrinsicHash(extrinsic []byte) Hash { return blake2b.Sum256(extrinsic) }
