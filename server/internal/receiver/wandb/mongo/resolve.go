package mongo

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/kymogram/kymogram/server/internal/loose"
)

// values appends what a path leads to; nil stands for an object of an array that
// lacks the key. Nothing is appended where the path leads nowhere.
func (p *path) values(r Record, to [][]byte) [][]byte {
	v, ok := r.Field(p.field)
	if !ok {
		return to
	}
	if v = bytes.TrimSpace(v); p.rest == "" {
		return append(to, v)
	}
	index := indexOf(r, p.field)
	if p.shape != settings {
		return descend(v, index, p.rest, to, false)
	}
	if found := descend(v, index, p.rest, to, true); len(found) > len(to) {
		return found
	}
	if rest, ok := strings.CutSuffix(p.rest, ".value"); ok {
		return descend(v, index, rest, to, true)
	}
	return to
}

// unwrap takes a config's value out of {"value": …}.
func unwrap(v []byte, rest string, to [][]byte) [][]byte {
	inner, ok := loose.Get(v, "value")
	if !ok {
		return follow(v, rest, to)
	}
	if below, named := cutKey(rest, "value"); named {
		if found := follow(inner, below, to); len(found) > len(to) {
			return found
		}
	}
	return follow(inner, rest, to)
}

func follow(v []byte, rest string, to [][]byte) [][]byte {
	if rest == "" {
		return append(to, v)
	}
	return descend(v, nil, rest, to, false)
}

// descend finds the keys that a path can begin with, and goes on from the longest
// one that leads to something. The values of a wrapped object are unwrapped. An index saves
// the walk through v.
func descend(v []byte, index loose.Index, rest string, to [][]byte, wrapped bool) [][]byte {
	switch loose.KindOf(v) {
	case loose.Array:
		return scatter(v, rest, to)
	case loose.Object:
	default:
		return to
	}
	var few [4]hit
	hits := few[:0]
	if index != nil {
		for key, val := range index.Pairs(v) {
			hits = consider(hits, rest, key, val)
		}
	} else { // apart, so that no iterator is allocated
		for key, val := range loose.Pairs(v) {
			hits = consider(hits, rest, key, val)
		}
	}
	for _, h := range hits {
		below, before := strings.TrimPrefix(rest[h.size:], "."), len(to)
		if wrapped {
			to = unwrap(h.val, below, to)
		} else {
			to = follow(h.val, below, to)
		}
		if len(to) > before {
			break
		}
	}
	return to
}

// hit is a key that a path can begin with.
type hit struct {
	size int // of the key
	val  []byte
}

// consider puts a member whose key a path can begin with.
func consider(hits []hit, rest string, key, val []byte) []hit {
	if size, ok := begins(rest, key); ok {
		return put(hits, hit{size, val})
	}
	return hits
}

// put keeps the longest keys first; a later value of a key replaces the earlier one.
func put(hits []hit, h hit) []hit {
	i := 0
	for i < len(hits) && hits[i].size > h.size {
		i++
	}
	if i < len(hits) && hits[i].size == h.size {
		hits[i] = h
		return hits
	}
	hits = append(hits, h)
	copy(hits[i+1:], hits[i:])
	hits[i] = h
	return hits
}

// begins says whether a path begins with a key, which is quoted.
func begins(rest string, quoted []byte) (size int, ok bool) {
	key := quoted[1 : len(quoted)-1]
	if len(key) > 0 && key[0] != '\\' && (rest == "" || key[0] != rest[0]) {
		return 0, false // most keys end here
	}
	if bytes.IndexByte(key, '\\') >= 0 {
		text, faithful := loose.Text(quoted)
		if !faithful {
			return 0, false
		}
		key = []byte(text)
	}
	size = len(key)
	if size > len(rest) || rest[:size] != string(key) || size < len(rest) && rest[size] != '.' {
		return 0, false
	}
	return size, true
}

func cutKey(rest, key string) (below string, ok bool) {
	if rest == key {
		return "", true
	}
	return strings.CutPrefix(rest, key+".")
}

// scatter goes on from the elements of an array: from the one that the path numbers,
// else from all that are objects. A number is never a key of the elements: with both
// readings, nested arrays would have 2^depth ways through them.
func scatter(v []byte, rest string, to [][]byte) [][]byte {
	first, below, _ := strings.Cut(rest, ".")
	index, err := strconv.ParseUint(first, 10, 32)
	numbered, at := err == nil, uint64(0)
	for e := range loose.Items(v) {
		switch {
		case numbered && at == index:
			return follow(e, below, to)
		case !numbered && loose.KindOf(e) == loose.Object:
			before := len(to)
			if to = descend(e, nil, rest, to, false); len(to) == before {
				to = append(to, nil)
			}
		}
		at++
	}
	return to
}
