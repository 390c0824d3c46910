package subtensor

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"golang.org/x/crypto/blake2b"
)

// state is the chain's storage during one call: what the parent block left, and a
// stack of changes above it, one for each open transaction.
type state struct {
	base   map[string][]byte
	layers []map[string][]byte // nil value: removed
}

func newState(base map[string][]byte) *state {
	return &state{base: base, layers: []map[string][]byte{{}}}
}

func (s *state) top() map[string][]byte { return s.layers[len(s.layers)-1] }

func (s *state) get(key string) []byte {
	for i := len(s.layers) - 1; i >= 0; i-- {
		if v, ok := s.layers[i][key]; ok {
			return v
		}
	}
	return s.base[key]
}

func (s *state) set(key string, value []byte) { s.top()[key] = append([]byte{}, value...) }

func (s *state) clear(key string) { s.top()[key] = nil }

// all is the storage as it is seen now.
func (s *state) all() map[string][]byte {
	out := maps.Clone(s.base)
	for _, layer := range s.layers {
		for key, value := range layer {
			if value == nil {
				delete(out, key)
			} else {
				out[key] = value
			}
		}
	}
	return out
}

// nextKey is the first key above one, "" at the end.
func (s *state) nextKey(after string) (next string) {
	better := func(key string) bool { return key > after && (next == "" || key < next) && s.get(key) != nil }
	for key := range s.base {
		if better(key) {
			next = key
		}
	}
	for _, layer := range s.layers {
		for key := range layer {
			if better(key) {
				next = key
			}
		}
	}
	return next
}

func (s *state) clearPrefix(prefix string) (removed uint32) {
	for key := range s.all() {
		if strings.HasPrefix(key, prefix) {
			s.clear(key)
			removed++
		}
	}
	return removed
}

func (s *state) begin() { s.layers = append(s.layers, map[string][]byte{}) }

func (s *state) rollback() { s.layers = s.layers[:len(s.layers)-1] }

func (s *state) commit() {
	changes := s.top()
	s.rollback()
	maps.Copy(s.top(), changes)
}

// digest stands in for the root of the trie: a hash of all keys and values.
func (s *state) digest() [32]byte {
	all := s.all()
	var b bytes.Buffer
	for _, key := range slices.Sorted(maps.Keys(all)) {
		sum := blake2b.Sum256(all[key])
		b.WriteString(key)
		b.Write(sum[:])
	}
	return blake2b.Sum256(b.Bytes())
}
