package model

import (
	"encoding/hex"
	"errors"
	"fmt"
)

// RunID is a ULID: 48 bits of milliseconds, 80 random bits, big-endian.
// Its text form is 26 characters of Crockford's base 32 (ULID spec,
// github.com/ulid/spec).
type RunID [16]byte

const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

var errRunID = errors.New("a run id is 26 characters of Crockford base 32, as in 01ARZ3NDEKTSV4RRFFQ69G5FAV")

// ParseRunID reads the 26-character text form, upper or lower case.
func ParseRunID(s string) (RunID, error) {
	var id RunID
	if len(s) != 26 {
		return id, errRunID
	}
	// 130 bits of text hold 128 bits: the first character is at most 7.
	var hi, lo uint64
	for i := range len(s) {
		v := crockfordValue(s[i])
		if v < 0 || (i == 0 && v > 7) {
			return id, errRunID
		}
		hi = hi<<5 | lo>>59
		lo = lo<<5 | uint64(v)
	}
	for i := range 8 {
		id[i] = byte(hi >> (56 - 8*i))
		id[8+i] = byte(lo >> (56 - 8*i))
	}
	return id, nil
}

func crockfordValue(c byte) int {
	if c >= 'a' && c <= 'z' {
		c -= 'a' - 'A'
	}
	for i := range len(crockford) {
		if crockford[i] == c {
			return i
		}
	}
	return -1
}

// String is the 26-character text form.
func (id RunID) String() string {
	var hi, lo uint64
	for i := range 8 {
		hi = hi<<8 | uint64(id[i])
		lo = lo<<8 | uint64(id[8+i])
	}
	var out [26]byte
	for i := 25; i >= 0; i-- {
		out[i] = crockford[lo&31]
		lo = lo>>5 | hi<<59
		hi >>= 5
	}
	return string(out[:])
}

// IsZero reports whether the id was never set.
func (id RunID) IsZero() bool { return id == RunID{} }

// MarshalText is String, for JSON and flags.
func (id RunID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText is ParseRunID, for JSON and flags.
func (id *RunID) UnmarshalText(text []byte) error {
	parsed, err := ParseRunID(string(text))
	if err != nil {
		return err
	}
	*id = parsed
	return nil
}

// WriterID names one open run in one process life: 128 random bits, never
// derived from a pid or a host. Its text form is 32 lower-case hex characters.
type WriterID [16]byte

// ParseWriterID reads 32 hex characters.
func ParseWriterID(s string) (WriterID, error) {
	var id WriterID
	if len(s) != 2*len(id) {
		return id, fmt.Errorf("a writer id is %d hex characters, got %d", 2*len(id), len(s))
	}
	if _, err := hex.Decode(id[:], []byte(s)); err != nil {
		return WriterID{}, fmt.Errorf("a writer id is %d hex characters: %w", 2*len(id), err)
	}
	return id, nil
}

// String is 32 lower-case hex characters.
func (id WriterID) String() string { return hex.EncodeToString(id[:]) }

// IsZero reports whether the id was never set.
func (id WriterID) IsZero() bool { return id == WriterID{} }

// MarshalText is String, for JSON.
func (id WriterID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText is ParseWriterID, for JSON.
func (id *WriterID) UnmarshalText(text []byte) error {
	parsed, err := ParseWriterID(string(text))
	if err != nil {
		return err
	}
	*id = parsed
	return nil
}
