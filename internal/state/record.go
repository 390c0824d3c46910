package state

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wallet"
)

// Prefix starts the canonical bytes of every record, so that a signature of a
// record is a signature of nothing else.
const Prefix = "kymogram/state/v1\x00"

// The limits of a record and of what it carries.
const (
	MaxRecord  = 4 << 10
	MaxPayload = 1 << 20
	MaxName    = 255
	// MaxNumber bounds sequence, block and times: JSON numbers of every language
	// hold them exactly.
	MaxNumber = 1<<53 - 1
	// MaxLife is the longest time from signing to expiry.
	MaxLife = 31 * 24 * time.Hour
)

// The roles that a record may name.
const (
	Validator = "validator"
	Miner     = "miner"
)

// ConfigPayload is the payload type of a run's config section, as JSON text.
const ConfigPayload = "config/v1"

// Hash is a SHA-256, in text as lower-case hexadecimal.
type Hash [sha256.Size]byte

// HashOf hashes bytes.
func HashOf(raw []byte) Hash { return sha256.Sum256(raw) }

func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText is String.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText reads 64 lower-case hexadecimal characters.
func (h *Hash) UnmarshalText(text []byte) error { return readHex(h[:], string(text)) }

// ParseHash reads 64 lower-case hexadecimal characters.
func ParseHash(text string) (h Hash, err error) { return h, h.UnmarshalText([]byte(text)) }

// IsZero reports whether nothing was hashed.
func (h Hash) IsZero() bool { return h == Hash{} }

// readHex is strict: one text for each value.
func readHex(dst []byte, text string) error {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(dst) || hex.EncodeToString(raw) != text {
		return model.Errorf(model.CodeInvalid, "%q is not %d lower-case hexadecimal characters", model.Clip(text), 2*len(dst))
	}
	copy(dst, raw)
	return nil
}

// Machine is the random number of the database that took the sequence.
type Machine [16]byte

func (m Machine) String() string { return hex.EncodeToString(m[:]) }

// MarshalText is String.
func (m Machine) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads 32 lower-case hexadecimal characters.
func (m *Machine) UnmarshalText(text []byte) error { return readHex(m[:], string(text)) }

// Place is where a record belongs: it holds nowhere else. Places are compared
// byte by byte.
type Place struct {
	Genesis   Hash           `json:"genesis"` // of the chain; zeros: none
	Netuid    uint16         `json:"netuid"`
	Role      string         `json:"role"`
	Hotkey    wallet.Account `json:"hotkey"`
	Workspace string         `json:"workspace"`
	Project   string         `json:"project"`
	Run       string         `json:"run"` // the run's name
}

func (p Place) String() string {
	return fmt.Sprintf("%s %s of subnet %d in %s/%s/%s", p.Role, p.Hotkey, p.Netuid, p.Workspace, p.Project, p.Run)
}

// Record is what a signature covers, besides the payload that PayloadHash names.
type Record struct {
	Place
	Sequence    uint64  `json:"sequence"`
	Previous    Hash    `json:"previous"` // of the record before; zeros for the first
	Block       uint64  `json:"block"`    // of the chain when it was signed; 0: no chain
	TimeMs      uint64  `json:"time_ms"`
	ExpiresMs   uint64  `json:"expires_ms"`
	Machine     Machine `json:"machine"`
	PayloadType string  `json:"payload_type"`
	PayloadHash Hash    `json:"payload_hash"`
}

// Canonical are the bytes that are signed and hashed.
func (r *Record) Canonical() ([]byte, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	out := append(make([]byte, 0, 512), Prefix...)
	out = append(out, r.Genesis[:]...)
	out = binary.BigEndian.AppendUint16(out, r.Netuid)
	out = appendText(out, r.Role)
	out = append(out, r.Hotkey[:]...)
	for _, s := range []string{r.Workspace, r.Project, r.Run} {
		out = appendText(out, s)
	}
	out = binary.BigEndian.AppendUint64(out, r.Sequence)
	out = append(out, r.Previous[:]...)
	for _, n := range []uint64{r.Block, r.TimeMs, r.ExpiresMs} {
		out = binary.BigEndian.AppendUint64(out, n)
	}
	out = append(out, r.Machine[:]...)
	out = appendText(out, r.PayloadType)
	return append(out, r.PayloadHash[:]...), nil
}

func appendText(out []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(out, uint16(len(s))), s...)
}

// Time is when the record was signed, by its signer's clock.
func (r *Record) Time() time.Time { return time.UnixMilli(int64(r.TimeMs)) }

// Expires is when it stops to count.
func (r *Record) Expires() time.Time { return time.UnixMilli(int64(r.ExpiresMs)) }

// Decode reads canonical bytes. It takes exactly what Canonical writes.
func Decode(raw []byte) (*Record, error) {
	if len(raw) > MaxRecord {
		return nil, refuse("the record has %d bytes, at most %d are allowed", len(raw), MaxRecord)
	}
	rest, ok := bytes.CutPrefix(raw, []byte(Prefix))
	if !ok {
		return nil, refuse("the record does not begin with %q: it is none of this version", Prefix)
	}
	d, r := decoder{rest: rest}, new(Record)
	d.bytes(r.Genesis[:])
	r.Netuid = uint16(d.number(2))
	r.Role = d.text()
	d.bytes(r.Hotkey[:])
	r.Workspace, r.Project, r.Run = d.text(), d.text(), d.text()
	r.Sequence = d.number(8)
	d.bytes(r.Previous[:])
	r.Block, r.TimeMs, r.ExpiresMs = d.number(8), d.number(8), d.number(8)
	d.bytes(r.Machine[:])
	r.PayloadType = d.text()
	d.bytes(r.PayloadHash[:])
	if d.short || len(d.rest) > 0 {
		return nil, refuse("the record's fields do not fill its %d bytes", len(raw))
	}
	return r, r.check()
}

// decoder takes fields off the front; what is missing is remembered.
type decoder struct {
	rest  []byte
	short bool
}

func (d *decoder) take(n int) []byte {
	if n > len(d.rest) {
		d.short, d.rest = true, nil
		return make([]byte, min(n, 8)) // read as zeros and refused at the end
	}
	out := d.rest[:n]
	d.rest = d.rest[n:]
	return out
}

func (d *decoder) bytes(dst []byte) { copy(dst, d.take(len(dst))) }

func (d *decoder) number(size int) (n uint64) {
	for _, b := range d.take(size) {
		n = n<<8 | uint64(b)
	}
	return n
}

func (d *decoder) text() string {
	n := int(d.number(2))
	if n > MaxName {
		d.short = true
		return ""
	}
	return string(d.take(n))
}

// refuse makes the reason why a record is none.
func refuse(format string, args ...any) *model.Error {
	return model.Errorf(model.CodeInvalid, format, args...)
}

// check reports the first field that no record may have.
func (r *Record) check() error {
	if r.Role != Validator && r.Role != Miner {
		return refuse("the role is %q, it must be %s or %s, letter by letter", model.Clip(r.Role), Validator, Miner)
	}
	for _, f := range []struct{ what, text string }{
		{"workspace", r.Workspace}, {"project", r.Project}, {"run", r.Run}, {"payload type", r.PayloadType},
	} {
		if err := checkName(f.what, f.text); err != nil {
			return err
		}
	}
	return r.checkNumbers()
}

// checkName allows printable ASCII only. Letters of other scripts can look like
// ASCII ones, and one text can have several encodings.
func checkName(what, s string) error {
	switch {
	case s == "":
		return refuse("the %s is empty", what)
	case len(s) > MaxName:
		return refuse("the %s has %d bytes, at most %d are allowed", what, len(s), MaxName)
	case s[0] == ' ' || s[len(s)-1] == ' ':
		return refuse("the %s %q begins or ends with a space", what, s)
	}
	for _, c := range s {
		if c < ' ' || c > '~' {
			return refuse("the %s %+q holds %+q: signed names are printable ASCII, since other letters can look alike", what, model.Clip(s), c)
		}
	}
	return nil
}

func (r *Record) checkNumbers() error {
	for _, f := range []struct {
		what  string
		value uint64
		least uint64
	}{{"sequence", r.Sequence, 1}, {"block", r.Block, 0}, {"time", r.TimeMs, 1}, {"expiry", r.ExpiresMs, 1}} {
		if f.value < f.least || f.value > MaxNumber {
			return refuse("the %s is %d, it must be from %d to %d", f.what, f.value, f.least, uint64(MaxNumber))
		}
	}
	if r.ExpiresMs <= r.TimeMs || r.ExpiresMs-r.TimeMs > uint64(MaxLife.Milliseconds()) {
		return refuse("the record expires at %d, signed at %d (ms): it must live from 1 ms to %s", r.ExpiresMs, r.TimeMs, MaxLife)
	}
	return nil
}
