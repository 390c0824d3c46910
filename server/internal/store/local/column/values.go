package column

import (
	"bytes"
	"math"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
)

// Values is a column: one of the slices is used, by kind.
type Values struct {
	Kind   model.Kind
	Floats []float64
	Ints   []int64
	Docs   [][]byte
}

// Len is the number of values.
func (v *Values) Len() int {
	switch v.Kind {
	case model.KindFloat:
		return len(v.Floats)
	case model.KindInt:
		return len(v.Ints)
	}
	return len(v.Docs)
}

// Add appends the values that pick names, all when it is nil.
func (v *Values) Add(o *Values, pick []int32) {
	switch v.Kind {
	case model.KindFloat:
		v.Floats = AppendPicked(v.Floats, o.Floats, pick)
	case model.KindInt:
		v.Ints = AppendPicked(v.Ints, o.Ints, pick)
	default:
		v.Docs = AppendPicked(v.Docs, o.Docs, pick)
	}
}

// Slice is a view of some values that later appends do not touch.
func (v *Values) Slice(lo, hi int) Values {
	out := Values{Kind: v.Kind}
	switch v.Kind {
	case model.KindFloat:
		out.Floats = v.Floats[lo:hi:hi]
	case model.KindInt:
		out.Ints = v.Ints[lo:hi:hi]
	default:
		out.Docs = v.Docs[lo:hi:hi]
	}
	return out
}

// Numeric reports whether values of a kind can be added up.
func Numeric(k model.Kind) bool { return k == model.KindFloat || k == model.KindInt }

// At is one value.
func (v *Values) At(i int) store.Number {
	switch v.Kind {
	case model.KindFloat:
		return store.Number{Float: v.Floats[i]}
	case model.KindInt:
		return store.Number{Int: v.Ints[i]}
	}
	return store.Number{Doc: v.Docs[i]}
}

// EqualAt compares two values to the bit.
func EqualAt(v *Values, i int, w *Values, j int) bool {
	switch {
	case v.Kind != w.Kind:
		return false
	case Numeric(v.Kind):
		return BitsOf(v, i) == BitsOf(w, j)
	}
	return bytes.Equal(v.Docs[i], w.Docs[j])
}

// NumberOf reads what BitsOf gives.
func NumberOf(kind model.Kind, bits uint64) store.Number {
	if kind == model.KindInt {
		return store.Number{Int: int64(bits)}
	}
	return store.Number{Float: math.Float64frombits(bits)}
}

// Convert gives the values of a column in another kind; ok is false at a value
// that cannot be converted exactly, and always for documents.
func Convert(v *Values, i int, to model.Kind) (float64, int64, bool) {
	switch {
	case v.Kind == model.KindFloat && to == model.KindInt:
		f := v.Floats[i]
		// 2^63 itself is out of range; below it the conversion of a whole float is exact.
		if f >= -(1<<63) && f < 1<<63 && f == math.Trunc(f) {
			return 0, int64(f), true
		}
	case v.Kind == model.KindInt && to == model.KindFloat:
		n := v.Ints[i]
		f := float64(n)
		if f < 1<<63 && int64(f) == n {
			return f, 0, true
		}
	}
	return 0, 0, false
}
