package influx

import (
	"encoding/binary"
	"math"
	"math/bits"
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
	maxFivePower  = 27 // likewise
)

// powersOfTen are exact.
var powersOfTen = [maxExactPower + 1]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// powersOfFive are those that a uint64 holds: 10^p is 5^p shifted.
var powersOfFive = func() (out [maxFivePower + 1]uint64) {
	out[0] = 1
	for p := range maxFivePower {
		out[p+1] = 5 * out[p]
	}
	return out
}()

// scanFloat reads the usual number, digits with or without a point, up to the end
// of a value. ok is false for all others, which [parseValue] reads. It takes a
// third of the time of strconv, of which a point would be the most
// (docs/design/0016-own-code.md).
func scanFloat(b []byte, i int) (f float64, end int, ok bool) {
	negative := i < len(b) && b[i] == '-'
	if negative {
		i++
	}
	mantissa, start := uint64(0), i
	for i < len(b) && b[i]-'0' <= 9 {
		mantissa = mantissa*10 + uint64(b[i]-'0')
		i++
	}
	digits, fraction, found := i-start, 0, i > start
	if mantissa == 0 && digits <= maxDigits {
		digits = 0
	}
	if i < len(b) && b[i] == '.' {
		i++
		point := i
		for mantissa == 0 && i < len(b) && b[i] == '0' {
			i++
		}
		digits -= i - point // zeros in front are none
		for i+8 <= len(b) && i-point <= maxFivePower {
			eight := binary.LittleEndian.Uint64(b[i:])
			if !allDigits(eight) {
				break
			}
			mantissa = mantissa*1e8 + eightDigits(eight)
			i += 8
		}
		for i < len(b) && b[i]-'0' <= 9 {
			mantissa = mantissa*10 + uint64(b[i]-'0')
			i++
		}
		fraction = i - point
		digits += fraction
		found = found || fraction > 0
	}
	// Within maxDigits the mantissa cannot have overflowed.
	if !found || digits > maxDigits || fraction > maxFivePower || i < len(b) && !ends(b[i]) {
		return 0, i, false
	}
	switch {
	case mantissa <= maxExact && fraction <= maxExactPower:
		f = float64(mantissa) / powersOfTen[fraction]
	case mantissa > 0:
		f = quotient(mantissa, fraction)
	}
	if negative {
		f = -f
	}
	return f, i, true
}

// allDigits reports whether eight bytes are digits (Lemire, "Quickly parsing eight
// digits", 2018, as is the next).
func allDigits(v uint64) bool {
	return v&0xf0f0f0f0f0f0f0f0|(v+0x0606060606060606)&0xf0f0f0f0f0f0f0f0>>4 == 0x3333333333333333
}

// eightDigits is the number that eight digits are, the first in the lowest byte.
func eightDigits(v uint64) uint64 {
	v -= 0x3030303030303030
	v = v*10 + v>>8
	const mask, one, two = 0x000000ff000000ff, 0x000f424000000064, 0x0000271000000001
	return (v&mask*one + v>>16&mask*two) >> 32
}

// quotient is the float64 nearest to m / 10^p, for p up to maxFivePower: a division of whole
// numbers gives 63 bits or more of it, and its rest says on which side of a tie
// the rest lies.
func quotient(m uint64, p int) float64 {
	up, down := bits.LeadingZeros64(m), bits.LeadingZeros64(powersOfFive[p])
	m <<= up
	q, rest := bits.Div64(m>>1, m<<63, powersOfFive[p]<<down)
	drop := 64 - bits.LeadingZeros64(q) - 53
	half := uint64(1) << (drop - 1)
	low := q & (half<<1 - 1)
	q >>= drop
	if low > half || low == half && (rest != 0 || q&1 == 1) {
		q++
	}
	const bias, mantissaBits = 1023, 52
	scale := math.Float64frombits(uint64(bias+drop-63+down-up-p) << mantissaBits)
	return float64(q) * scale // a power of two: exact
}

// scanNumber finds the end of digits with a sign, a point and an exponent; ok is
// false when no digit is there. Package strconv reads it, bit for bit.
func scanNumber(b []byte, i int) (end int, whole, ok bool) {
	end, ok = scanDigits(b, signed(b, i))
	whole = true
	if end < len(b) && b[end] == '.' {
		var fraction bool
		end, fraction = scanDigits(b, end+1)
		whole, ok = false, ok || fraction
	}
	if ok && end < len(b) && b[end]|0x20 == 'e' {
		end, ok = scanDigits(b, signed(b, end+1))
		whole = false
	}
	return end, whole, ok
}

func signed(b []byte, i int) int {
	if i < len(b) && (b[i] == '-' || b[i] == '+') {
		i++
	}
	return i
}

func scanDigits(b []byte, i int) (end int, found bool) {
	for end = i; end < len(b) && b[end]-'0' <= 9; {
		end++
	}
	return end, end > i
}

// text is b as a string that is not kept.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
