package row

import (
	"iter"
	"math"

	"github.com/kymogram/kymogram/server/internal/loose"
)

// MaxLeafDepth is how many objects deep a leaf lies at most; that of the row's key counts.
const MaxLeafDepth = 8

// TypeMember is the member that tells W&B's media and histograms from plain objects.
const TypeMember = "_type"

// Number is the value of a JSON number that a float64 series can keep: decimal fractions,
// bare words, and integers up to ±2^53.
func Number(value []byte) (float64, bool) {
	f, size, held := scanned(value)
	return f, held && size == len(value)
}

// scanned is Number of what b begins with.
func scanned(b []byte) (f float64, size int, held bool) {
	const most = 1 << 53
	f, size, exact := loose.ScanNumber(b)
	return f, size, exact && !(math.Abs(f) > most && isWhole(b[:size]))
}

func isWhole(number []byte) bool {
	for _, c := range number {
		switch c {
		case '.', 'e', 'E', 'N', 'I':
			return false
		}
	}
	return true
}

// Leaves walks through the numbers in the object that a row has under a key, by their
// dotted names. Objects with a type of W&B's have none.
func Leaves(key string, object []byte) iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) { leaves(key, object, MaxLeafDepth, yield) }
}

func leaves(name string, object []byte, depth int, yield func(string, float64) bool) (more bool) {
	if loose.KindOf(object) != loose.Object || depth == 0 {
		return true
	}
	if _, typed := loose.Get(object, TypeMember); typed {
		return true
	}
	for m, err := range loose.Members(object) {
		if err != nil {
			return true
		}
		if !m.Faithful {
			continue
		}
		switch loose.KindOf(m.Value) {
		case loose.Object:
			if !leaves(name+"."+string(m.Key), m.Value, depth-1, yield) {
				return false
			}
		case loose.Number:
			if f, ok := Number(m.Value); ok && !yield(name+"."+string(m.Key), f) {
				return false
			}
		default:
		}
	}
	return true
}
