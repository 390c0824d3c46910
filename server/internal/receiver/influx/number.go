package influx

import (
	"encoding/binary"
	"math"
	"math/bits"
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
// of a value. ok is false for all others, which [parseValue] reads.
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
			f /= powersOfTen[-n.power]
		} else {
			f *= powersOfTen[n.power]
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
