package transparency

import (
	"crypto/ed25519"
	"encoding/binary"
	"encoding/hex"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/internal/wallet"
)

// The prefixes of what server and witnesses sign.
const (
	headPrefix   = "kymogram/tree-head/v1\x00"
	cosignPrefix = "kymogram/cosign/v1\x00"
)

// PublicKey is the ed25519 key of a server's log, in text as hexadecimal.
type PublicKey [ed25519.PublicKeySize]byte

func (k PublicKey) String() string { return hex.EncodeToString(k[:]) }

// MarshalText is String.
func (k PublicKey) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads hexadecimal.
func (k *PublicKey) UnmarshalText(text []byte) error {
	return (*state.Hash)(k).UnmarshalText(text) // of the same size
}

// Head is how long a log is and what it holds.
type Head struct {
	Workspace string     `json:"workspace"`
	Project   string     `json:"project"`
	Size      uint64     `json:"size"`
	Root      state.Hash `json:"root"`
	TimeMs    uint64     `json:"time_ms"`
}

// SignedHead is a head with the signatures of its server and of witnesses. The
// server's signature is of ed25519, those of witnesses are of sr25519.
type SignedHead struct {
	Head
	Key          PublicKey       `json:"key"`
	Signature    state.Signature `json:"signature"`
	Cosignatures []Cosignature   `json:"cosignatures"`
}

// Cosignature is a witness' word that a head continues all that it saw before.
type Cosignature struct {
	Hotkey    wallet.Account  `json:"hotkey"`
	Signature state.Signature `json:"signature"`
}

// canonical are the bytes that the server signs.
func (h *Head) canonical(key PublicKey) []byte {
	out := append([]byte(headPrefix), key[:]...)
	for _, s := range []string{h.Workspace, h.Project} {
		out = append(binary.BigEndian.AppendUint16(out, uint16(len(s))), s...)
	}
	out = binary.BigEndian.AppendUint64(out, h.Size)
	out = append(out, h.Root[:]...)
	return binary.BigEndian.AppendUint64(out, h.TimeMs)
}

// Sign makes the server's signature.
func Sign(h Head, key ed25519.PrivateKey) *SignedHead {
	s := &SignedHead{Head: h, Key: PublicKey(key.Public().(ed25519.PublicKey)), Cosignatures: []Cosignature{}}
	s.Signature = state.Signature(ed25519.Sign(key, h.canonical(s.Key)))
	return s
}

func (s *SignedHead) cosigned() []byte {
	return state.Wrapped(append([]byte(cosignPrefix), s.canonical(s.Key)...))
}

// Cosign is a witness' signature. [Witness.Follow] decides whether to give it.
func (s *SignedHead) Cosign(signer state.Signer) (Cosignature, error) {
	signature, err := signer.Sign(s.cosigned())
	return Cosignature{Hotkey: signer.Account(), Signature: signature}, err
}

// Check verifies the server's signature and every cosignature.
func (s *SignedHead) Check() error {
	if !ed25519.Verify(s.Key[:], s.canonical(s.Key), s.Signature[:]) {
		return broken("the tree head of size %d is not signed by the log's key %s", s.Size, s.Key)
	}
	for _, c := range s.Cosignatures {
		if !wallet.Verify(c.Hotkey, s.cosigned(), c.Signature) {
			return broken("the cosignature of %s is not one of this tree head", c.Hotkey)
		}
	}
	return nil
}

func broken(format string, args ...any) error {
	return model.Errorf(model.CodeInvalid, format, args...)
}
