package influx

import (
	"math"
	"strconv"
	"unsafe"

	"github.com/kymogram/kymogram/internal/model"
)

// value is a field's, by kind in one of the three.
type value struct {
	kind  model.Kind
	float float64
	int   int64
	text  string
}

// maxExact is the largest mantissa that a float64 holds exactly, and
// maxExactPower the largest power of ten: quotient and product of two such are
// rounded once, so they are the nearest float64 (Clinger 1990).
const (
	maxExact      = 1 << 53
	maxExactPower = 22
	maxDigits     = 19 // that fit a uint64
)

func powerOfTen(n int) float64 {
	return [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22}[n]
}

// number is what a scan of a number found.
type number struct {
	mantissa uint64
	digits   int // in the mantissa, zeros in front left out
	power    int // of ten
	negative bool
	whole    bool // neither a point nor an exponent
}

// scanNumber reads digits, a point and an exponent; it stops at the first byte
// that is of neither. ok is false when no digit was there.
func scanNumber(b []byte, i int) (n number, end int, ok bool) {
	if i < len(b) && (b[i] == '-' || b[i] == '+') {
		n.negative = b[i] == '-'
		i++
	}
	n.whole = true
	start, point := i, -1
	for ; i < len(b); i++ {
		c := b[i] - '0'
		if c > 9 {
			if b[i] != '.' || point >= 0 {
				break
			}
			point = i
			continue
		}
		if n.digits < maxDigits {
			n.mantissa = n.mantissa*10 + uint64(c)
		}
		if n.mantissa > 0 || n.digits > 0 {
			n.digits++
		}
	}
	if point >= 0 {
		n.whole = false
		n.power = point + 1 - i
		ok = i > start+1
	} else {
		ok = i > start
	}
	if !ok || i >= len(b) || b[i]|0x20 != 'e' {
		return n, i, ok
	}
	n.whole = false
	return n.exponent(b, i+1)
}

func (n number) exponent(b []byte, i int) (number, int, bool) {
	negative := i < len(b) && b[i] == '-'
	if i < len(b) && (b[i] == '-' || b[i] == '+') {
		i++
	}
	const most = 100_000 // far beyond what a float64 holds
	power, start := 0, i
	for ; i < len(b) && b[i]-'0' <= 9; i++ {
		power = min(power*10+int(b[i]-'0'), most)
	}
	if negative {
		power = -power
	}
	n.power += power
	return n, i, i > start
}

// float is the number's nearest float64; text is how it was written.
func (n number) float(text []byte) (float64, error) {
	if n.digits <= maxDigits && n.mantissa <= maxExact && n.power >= -maxExactPower && n.power <= maxExactPower {
		f := float64(n.mantissa)
		if n.power < 0 {
			f /= powerOfTen(-n.power)
		} else {
			f *= powerOfTen(n.power)
		}
		if n.negative {
			f = -f
		}
		return f, nil
	}
	return strconv.ParseFloat(unsafe.String(unsafe.SliceData(text), len(text)), 64) // not kept, but in an error
}

// int64 is the number as an integer; ok is false when it does not fit.
func (n number) int64() (v int64, ok bool) {
	switch {
	case !n.whole || n.digits > maxDigits:
		return 0, false
	case n.negative:
		return -int64(n.mantissa), n.mantissa <= 1<<63
	}
	return int64(n.mantissa), n.mantissa <= math.MaxInt64
}
