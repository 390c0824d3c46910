package loose

import (
	"bytes"
	"cmp"
	"math"
	"strconv"
)

// CompareNumbers orders two numbers as Python reads them: integers with all their
// digits, the others as float64. NaN equals NaN and comes before all others.
func CompareNumbers(a, b []byte) int {
	f, exactA := Float(a)
	g, exactB := Float(b)
	longA, longB := !exactA && whole(a), !exactB && whole(b)
	switch {
	case longA && longB:
		return compareDigits(a, b)
	case longA:
		return compareLong(a, g)
	case longB:
		return -compareLong(b, f)
	}
	return cmp.Compare(f, g)
}

// compareLong compares an integer that no float64 holds. It is beyond 2^53, where
// every float64 is an integer.
func compareLong(a []byte, g float64) int {
	if math.IsNaN(g) || math.IsInf(g, -1) {
		return 1
	}
	if math.IsInf(g, 1) {
		return -1
	}
	var held [maxDigits + 1]byte
	return compareDigits(a, strconv.AppendFloat(held[:0], g, 'f', 0, 64))
}

func compareDigits(a, b []byte) int {
	minusA, minusB := a[0] == '-', b[0] == '-'
	switch {
	case minusA && minusB:
		a, b = b[1:], a[1:]
	case minusA:
		return -1
	case minusB:
		return 1
	}
	if c := cmp.Compare(len(a), len(b)); c != 0 {
		return c
	}
	return bytes.Compare(a, b)
}
