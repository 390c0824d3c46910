package state

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wallet"
)

// MaxEnvelope is above what the JSON text of the largest envelope takes.
const MaxEnvelope = (MaxRecord+MaxPayload)*4/3 + 1024

// Signature is of sr25519, in text as 128 lower-case hexadecimal characters.
type Signature [wallet.SignatureBytes]byte

// MarshalText writes hexadecimal.
func (s Signature) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(s[:])), nil }

// UnmarshalText reads 128 lower-case hexadecimal characters.
func (s *Signature) UnmarshalText(text []byte) error { return readHex(s[:], string(text)) }

// Signer signs with a hotkey; [wallet.Key] is one.
type Signer interface {
	Account() wallet.Account
	Sign(message []byte) ([wallet.SignatureBytes]byte, error)
}

// Envelope is a record as it travels: its exact canonical bytes, the signature of
// these, and the payload's exact bytes.
type Envelope struct {
	Record    []byte    `json:"record"` // base64 in JSON
	Signature Signature `json:"signature"`
	Payload   []byte    `json:"payload"`

	held Hash // of record and signature that [VerifyAll] found to hold
}

// Wrapped is the message that is signed for canonical bytes: the chain's wallets
// put texts between these marks, so that no transaction can be read into them.
func Wrapped(canonical []byte) []byte {
	out := append(make([]byte, 0, len(canonical)+15), "<Bytes>"...)
	return append(append(out, canonical...), "</Bytes>"...)
}

// Seal signs a record over a payload. Hotkey and PayloadHash are set from signer
// and payload.
func Seal(r Record, payload []byte, signer Signer) (*Envelope, error) {
	if len(payload) > MaxPayload {
		return nil, tooLarge(len(payload))
	}
	r.Hotkey, r.PayloadHash = signer.Account(), HashOf(payload)
	canonical, err := r.Canonical()
	if err != nil {
		return nil, err
	}
	signature, err := signer.Sign(Wrapped(canonical))
	if err != nil {
		return nil, err
	}
	return &Envelope{Record: canonical, Signature: signature, Payload: payload}, nil
}

func tooLarge(size int) error {
	return model.Errorf(model.CodeTooLarge, "the payload has %d bytes, at most %d are allowed", size, MaxPayload).
		WithHint("keep measurements out of the state: log them as points")
}

// Hash names the record: the SHA-256 of its canonical bytes.
func (e *Envelope) Hash() Hash { return HashOf(e.Record) }

// Open decodes the record and checks what can be known without a place or a
// clock: its form, the payload's hash and the signature.
func (e *Envelope) Open() (*Record, error) {
	r, err := e.decode()
	if err != nil {
		return nil, err
	}
	return r, e.verify(r)
}

// Signed is Open without the payload, which may be missing: nothing of it may be read.
func (e *Envelope) Signed() (*Record, error) {
	r, err := Decode(e.Record)
	if err != nil {
		return nil, err
	}
	return r, e.verify(r)
}

// Bare is the envelope without its payload.
func (e *Envelope) Bare() *Envelope {
	return &Envelope{Record: e.Record, Signature: e.Signature, Payload: []byte{}, held: e.held}
}

// IsBare reports whether the payload that a record names is not there.
func (e *Envelope) IsBare(r *Record) bool {
	return len(e.Payload) == 0 && r.PayloadHash != HashOf(nil)
}

// decode is Open without the signature.
func (e *Envelope) decode() (*Record, error) {
	if len(e.Payload) > MaxPayload {
		return nil, tooLarge(len(e.Payload))
	}
	r, err := Decode(e.Record)
	if err != nil {
		return nil, err
	}
	if e.IsBare(r) {
		return nil, refuse("the payload is missing: this server lost it, or somebody took it away")
	} else if HashOf(e.Payload) != r.PayloadHash {
		return nil, refuse("the payload is not the signed one: it was changed after the signature")
	}
	return r, nil
}

func (e *Envelope) verify(r *Record) error {
	if e.held == e.signed() {
		return nil
	}
	if !wallet.Verify(r.Hotkey, Wrapped(e.Record), e.Signature) {
		return refuse("the signature is not one of hotkey %s over this record", r.Hotkey)
	}
	return nil
}

// signed is the hash of what a signature's check depends on.
func (e *Envelope) signed() Hash { return HashOf(append(e.Signature[:], e.Record...)) }

// VerifyAll checks signatures on all cores, and remembers in each envelope that its
// own holds, so that a reader that judges them in order does not wait for each. What
// does not hold is left for the reader to refuse.
func VerifyAll(all []*Envelope) {
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(all)) {
		group.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(all)); i = next.Add(1) - 1 {
				if r, err := Decode(all[i].Record); err == nil && all[i].verify(r) == nil {
					all[i].held = all[i].signed()
				}
			}
		})
	}
	group.Wait()
}

// Equal reports whether both hold the same signed bytes.
func (e *Envelope) Equal(o *Envelope) bool {
	return bytes.Equal(e.Record, o.Record) && bytes.Equal(e.Payload, o.Payload)
}

// UnmarshalJSON is strict where encoding/json is lenient: each name once and
// letter by letter, base64 in its one form. Other members are the transport's and
// are skipped; nothing of ours reads them.
func (e *Envelope) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return refuse("an envelope is a JSON object")
	}
	seen := map[string]bool{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return refuse("the envelope is not JSON: %v", err)
		}
		if seen[name.(string)] {
			return refuse("the envelope names %q twice", model.Clip(name.(string)))
		}
		seen[name.(string)] = true
		if err := e.member(d, name.(string)); err != nil {
			return err
		}
	}
	if !seen["record"] || !seen["signature"] || !seen["payload"] {
		return refuse("an envelope holds record, signature and payload")
	}
	return nil
}

func (e *Envelope) member(d *json.Decoder, name string) error {
	var value string
	switch name {
	case "record", "signature", "payload":
		t, err := d.Token()
		text, ok := t.(string)
		if err != nil || !ok {
			return refuse("%s is not a JSON string", name)
		}
		value = text
	default:
		return d.Decode(new(json.RawMessage))
	}
	if name == "signature" {
		return e.Signature.UnmarshalText([]byte(value))
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(value)
	if err != nil || base64.StdEncoding.EncodeToString(raw) != value {
		return refuse("%s is not base64 with padding", name)
	}
	if name == "record" {
		e.Record = raw
	} else {
		e.Payload = raw
	}
	return nil
}

// ReadEnvelope reads one envelope as JSON and nothing after it.
func ReadEnvelope(r io.Reader) (*Envelope, error) {
	text, err := io.ReadAll(io.LimitReader(r, MaxEnvelope+1))
	if err != nil {
		return nil, err
	}
	if len(text) > MaxEnvelope {
		return nil, model.Errorf(model.CodeTooLarge, "the envelope has more than %d bytes", MaxEnvelope).
			WithHint("a payload has at most %d bytes", MaxPayload)
	}
	e := new(Envelope)
	if err := json.Unmarshal(text, e); err != nil {
		return nil, asRefusal(err)
	}
	return e, nil
}

// asRefusal keeps a reason of ours and wraps one of encoding/json.
func asRefusal(err error) error {
	if model.CodeOf(err) != model.CodeInternal {
		return err
	}
	return refuse("the envelope is not JSON: %v", err)
}
