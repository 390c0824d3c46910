package loose

import (
	"encoding/binary"
	"math"
	"math/bits"
	"strconv"
)

// ScanNumber reads the number or bare word that b begins with, as Float does; the size is
// 0 where none begins.
func ScanNumber(b []byte) (f float64, size int, exact bool) {
	if f, size = usual(b); size > 0 {
		return f, size, true
	}
	if len(b) == 0 {
		return 0, 0, false
	}
	for _, w := range [...]string{"NaN", "Infinity", "-Infinity"} {
		if len(b) >= len(w) && string(b[:len(w)]) == w {
			return wordFloat(b), len(w), true
		}
	}
	size, reason := number(b, 0)
	if reason != "" {
		return 0, 0, false
	}
	if whole(b[:size]) {
		f, exact = integer(b[:size])
		return f, size, exact
	}
	f, err := strconv.ParseFloat(string(b[:size]), 64)
	return f, size, err == nil
}

// What usual reads: so many digits fit a uint64, and so many powers of five. A float64
// holds all integers up to mostWhole, and ten to the power of up to mostTens.
const (
	mostDigits = 19
	mostFives  = 27
	mostTens   = 22
	mostWhole  = 1 << 53
)

var fives, tens = func() (fives [mostFives + 1]uint64, tens [mostTens + 1]float64) {
	fives[0], tens[0] = 1, 1
	for i := range mostFives {
		fives[i+1] = 5 * fives[i]
	}
	for i := range mostTens {
		tens[i+1] = 10 * tens[i]
	}
	return fives, tens
}()

// usual reads the numbers that programs write most, in one pass; the size is 0 for others.
func usual(b []byte) (f float64, size int) {
	i := 0
	if len(b) > 0 && b[0] == '-' {
		i = 1
	}
	begin := i
	n, i := decimals(b, i, 0)
	if i == begin || b[begin] == '0' && i > begin+1 {
		return 0, 0
	}
	used, below, isWhole := i-begin, 0, true
	if i < len(b) && b[i] == '.' {
		point := i + 1
		if n, i = decimals(b, point, n); i == point {
			return 0, 0
		}
		below, isWhole = i-point, false
		used += below
	}
	if used > mostDigits && used-zerosAhead(b[begin:i]) > mostDigits {
		return 0, 0
	}
	if i < len(b) && b[i]|' ' == 'e' {
		e, end := exponent(b, i+1)
		if end == 0 {
			return 0, 0
		}
		below, isWhole, i = below-e, false, end
	}
	if isWhole {
		if n > mostWhole {
			return 0, 0
		}
		if f = float64(n); begin == 1 && n != 0 { // -0 is an integer of Python's
			f = -f
		}
		return f, i
	}
	f, ok := scaled(n, below)
	if !ok {
		return 0, 0
	}
	if begin == 1 {
		f = -f
	}
	return f, i
}

// decimals reads digits behind those of n, eight at a time.
func decimals(b []byte, i int, n uint64) (sum uint64, end int) {
	for i+8 <= len(b) {
		x := binary.LittleEndian.Uint64(b[i:])
		if x&(0xf0*ones)|(x+0x06*ones)&(0xf0*ones)>>4 != 0x33*ones {
			break
		}
		x -= '0' * ones
		x = x*10 + x>>8 // pairs of digits
		x = (x&0x000000ff000000ff*0x000f424000000064 + x>>16&0x000000ff000000ff*0x0000271000000001) >> 32
		n, i = n*1e8+x, i+8
	}
	for i < len(b) && isDigit(b[i]) {
		n, i = n*10+uint64(b[i]-'0'), i+1
	}
	return n, i
}

// zerosAhead counts the zeros that a number begins with.
func zerosAhead(number []byte) (n int) {
	for _, c := range number {
		switch c {
		case '0':
			n++
		case '.':
		default:
			return n
		}
	}
	return n
}

// exponent reads an exponent of few digits; the end is 0 for others.
func exponent(b []byte, i int) (e, end int) {
	minus := i < len(b) && b[i] == '-'
	if i < len(b) && (minus || b[i] == '+') {
		i++
	}
	n, end := decimals(b, i, 0)
	if end == i || end > i+8 {
		return 0, 0
	}
	if minus {
		return -int(n), end
	}
	return int(n), end
}

// scaled is n with so many digits below the point, rounded as strconv does. The division
// has 63 bits or more, and the last of them says whether something is left of it: so the
// one rounding is that of the conversion.
func scaled(n uint64, below int) (f float64, ok bool) {
	switch {
	case n == 0:
		return 0, true
	case n <= mostWhole && below >= 0 && below <= mostTens:
		return float64(n) / tens[below], true
	case n <= mostWhole && below < 0 && below >= -mostTens:
		return float64(n) * tens[-below], true
	case below < 0 || below > mostFives:
		return 0, false
	}
	d := fives[below]
	up, down := bits.LeadingZeros64(n), bits.LeadingZeros64(d)
	n, d = n<<up, d<<down
	q, left := bits.Div64(n>>1, n<<63, d)
	if left != 0 {
		q |= 1
	}
	return float64(q) * math.Float64frombits(uint64(1023+down-up-below-63)<<52), true
}
