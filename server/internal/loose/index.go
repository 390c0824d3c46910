package loose

import (
	"iter"
	"math"
)

// Index is where the members of an object lie, for a text that is asked again and again.
type Index []indexed

// indexed is a member: its key lies at text[key:keyEnd], with its quotes, its value at text[value:end].
type indexed struct{ key, keyEnd, value, end uint16 }

// NewIndex walks through an object that has passed Check. It is nil where a walk costs little
// more than the index: in an empty object, in one of very short members, which would take more
// than half of the text's bytes, and in what is no object; and in texts of more than 65,535 bytes.
func NewIndex(b []byte) Index {
	const size = 8 // of a member, in bytes
	if len(b) > math.MaxUint16 {
		return nil
	}
	var x Index
	at := 0
	pairs(b, func(key, val []byte) bool {
		from := at + offset(b[at:], key)
		value := from + offset(b[from:], val)
		at = value + len(val)
		x = append(x, indexed{uint16(from), uint16(from + len(key)), uint16(value), uint16(at)})
		return size*len(x) <= len(b)/2
	})
	if size*len(x) > len(b)/2 {
		return nil
	}
	return x
}

// Pairs is [Pairs] of the text that the index is of.
func (x Index) Pairs(b []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, val []byte) bool) {
		for _, m := range x {
			if !yield(b[m.key:m.keyEnd], b[m.value:m.end]) {
				return
			}
		}
	}
}

// offset is where a part of a text begins in it.
func offset(text, part []byte) int { return cap(text) - cap(part) }
