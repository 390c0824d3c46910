package substrate

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/crypto/blake2b"
)

// hasher is how a part of a storage key is hashed, numbered as in metadata.
type hasher uint8

const (
	hashBlake128 hasher = iota
	hashBlake256
	hashBlake128Concat
	hashTwox128
	hashTwox256
	hashTwox64Concat
	hashIdentity
)

func (h hasher) append(dst, key []byte) []byte {
	switch h {
	case hashBlake128:
		return append(dst, blake(16, key)...)
	case hashBlake256:
		return append(dst, blake(32, key)...)
	case hashBlake128Concat:
		return append(append(dst, blake(16, key)...), key...)
	case hashTwox128:
		return append(dst, twox(2, key)...)
	case hashTwox256:
		return append(dst, twox(4, key)...)
	case hashTwox64Concat:
		return append(append(dst, twox(1, key)...), key...)
	}
	return append(dst, key...)
}

// prefix is the size of the hash in front of the key itself; ok is false where
// the key cannot be read back.
func (h hasher) prefix() (size int, ok bool) {
	switch h {
	case hashBlake128Concat:
		return 16, true
	case hashTwox64Concat:
		return 8, true
	case hashIdentity:
		return 0, true
	}
	return 0, false
}

func blake(size int, data []byte) []byte {
	h, err := blake2b.New(size, nil)
	if err != nil {
		panic(err) // the sizes above are all valid
	}
	_, _ = h.Write(data) // never fails
	return h.Sum(nil)
}

// twox is xxhash64 with the seeds 0, 1, … one after another.
func twox(words uint64, data []byte) (out []byte) {
	for seed := range words {
		h := xxhash.NewWithSeed(seed)
		_, _ = h.Write(data) // never fails
		out = binary.LittleEndian.AppendUint64(out, h.Sum64())
	}
	return out
}

// StorageKey is where a value is kept. With fewer keys than the map has it is the
// prefix of all values under them.
func (m *Metadata) StorageKey(pallet, name string, keys ...any) ([]byte, error) {
	p, e, err := m.entry(pallet, name)
	if err != nil {
		return nil, err
	}
	out := append(twox(2, []byte(p.prefix)), twox(2, []byte(e.name))...)
	parts, err := m.keyParts(e)
	if err != nil || len(keys) > len(parts) {
		return nil, fmt.Errorf("storage %s.%s has %d keys, not %d", pallet, name, len(parts), len(keys))
	}
	for i, key := range keys {
		raw, err := m.types.encode(nil, parts[i], key, 0)
		if err != nil {
			return nil, fmt.Errorf("key %d of storage %s.%s: %w", i+1, pallet, name, err)
		}
		out = e.hashers[i].append(out, raw)
	}
	return out, nil
}

// keyParts are the types of a map's keys: of several, the parts of a tuple.
func (m *Metadata) keyParts(e *entry) ([]int, error) {
	switch t := &m.types[e.key]; {
	case len(e.hashers) == 0:
		return nil, nil
	case len(e.hashers) == 1:
		return []int{e.key}, nil
	case t.kind == kindTuple && len(t.items) == len(e.hashers):
		return t.items, nil
	}
	return nil, fmt.Errorf("storage %s: its keys and hashers differ in number", e.name)
}

// StorageKeys reads the keys of a map back from where a value is kept.
func (m *Metadata) StorageKeys(pallet, name string, where []byte) ([]any, error) {
	prefix, err := m.StorageKey(pallet, name)
	if err != nil {
		return nil, err
	}
	_, e, err := m.entry(pallet, name)
	if err != nil {
		return nil, err
	}
	parts, err := m.keyParts(e)
	rest, ok := bytes.CutPrefix(where, prefix)
	if err != nil || !ok {
		return nil, fmt.Errorf("this is not a key of storage %s.%s", pallet, name)
	}
	r := newReader(rest)
	out := make([]any, 0, len(parts))
	for i, part := range parts {
		size, readable := e.hashers[i].prefix()
		if !readable {
			return nil, fmt.Errorf("storage %s.%s: its keys are hashed away", pallet, name)
		}
		r.bytes(size)
		out = append(out, m.types.decode(r, part, 0))
	}
	if r.err == nil && len(r.data) > 0 {
		r.err = fmt.Errorf("%d bytes follow the keys", len(r.data))
	}
	if r.err != nil {
		return nil, fmt.Errorf("read a key of storage %s.%s: %w", pallet, name, r.err)
	}
	return out, nil
}

// StorageValue decodes a stored value. For a missing one (nil) it is the chain's
// default, or nil where the chain has none.
func (m *Metadata) StorageValue(pallet, name string, raw []byte) (any, error) {
	_, e, err := m.entry(pallet, name)
	if err != nil {
		return nil, err
	}
	if raw == nil {
		if raw = e.fallback; raw == nil {
			return nil, nil
		}
	}
	v, err := m.types.decodeAll(e.value, raw)
	if err != nil {
		return nil, fmt.Errorf("decode storage %s.%s: %w", pallet, name, err)
	}
	return v, nil
}
