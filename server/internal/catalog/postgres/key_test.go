package postgres

import (
	"bytes"
	"cmp"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
)

// interesting are numbers where integers and reals meet, and random ones.
func interesting() (out []any) {
	for _, n := range []int64{0, 1, -1, 1 << 53, 1<<53 + 1, -1<<53 - 1, math.MaxInt64, math.MinInt64, math.MaxInt64 - 1, math.MinInt64 + 1, 1 << 62, 1<<62 + 1} {
		out = append(out, n, float64(n), math.Nextafter(float64(n), math.Inf(1)), math.Nextafter(float64(n), math.Inf(-1)))
	}
	for _, f := range []float64{math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64, math.Copysign(0, -1), 0.1, 1e-300, 1e300, 1 << 63} {
		out = append(out, f)
	}
	for range 200 {
		n := int64(rand.Uint64()) >> rand.IntN(64)
		out = append(out, n, float64(n), math.Float64frombits(rand.Uint64()))
	}
	return slices.DeleteFunc(out, func(v any) bool { f, ok := v.(float64); return ok && f != f })
}

// exact compares as big numbers do.
func exact(a, b any) int {
	whole := func(v any) (*big.Float, int) {
		switch v := v.(type) {
		case int64:
			return new(big.Float).SetPrec(2000).SetInt64(v), 0
		case float64:
			if math.IsInf(v, 0) {
				return nil, int(math.Copysign(1, v))
			}
			return new(big.Float).SetPrec(2000).SetFloat64(v), 0
		}
		return nil, 0
	}
	x, xInf := whole(a)
	y, yInf := whole(b)
	if x == nil || y == nil {
		return cmp.Compare(xInf, yInf)
	}
	return x.Cmp(y)
}

// TestKeysCompareExactly: bytes compare as the numbers do, and are read back as what they are.
func TestKeysCompareExactly(t *testing.T) {
	all := interesting()
	for _, a := range all {
		for _, b := range all {
			if got, want := bytes.Compare(encodeKey(a), encodeKey(b)), exact(a, b); got != want {
				t.Fatalf("%v (%T) and %v (%T) compare as %d, want %d", a, a, b, b, got, want)
			}
		}
		if back := decodeKey(encodeKey(a)); exact(a, back) != 0 {
			t.Errorf("%v (%T) is read as %v", a, a, back)
		}
		back := decodeNumber(encodeNumber(a))
		if exact(a, back) != 0 {
			t.Errorf("%v (%T) is stored as %v and read as %v", a, a, encodeNumber(a), back)
		}
		if _, whole := a.(int64); whole {
			if _, still := back.(int64); !still {
				t.Errorf("the integer %v is read as %T", a, back)
			}
		} else if _, still := back.(float64); !still {
			t.Errorf("the real %v is read as %T", a, back)
		}
	}
	if bytes.Compare(encodeKey(math.Inf(1)), encodeKey("")) >= 0 || encodeKey(math.NaN()) != nil || encodeNumber(math.NaN()) != nil || decodeKey(nil) != nil {
		t.Error("NaN is NULL, and texts come behind numbers")
	}
}
