package codec

import (
	"encoding/binary"
	"math"
)

// Kinds of float columns. A decimal of e digits is floatDecimal + e.
const (
	floatGeneral  = 0
	floatInteger  = 1
	floatSingle   = 2
	floatConstant = 3
	floatDecimal  = 16 // 17…24: one to eight digits
	floatRatio    = 32 // whole numbers by one divisor, as shares of a count are
	floatNear     = 33 // decimals, and how many floats each value is from its own
	floatProduct  = 34 // the same, of whole numbers that were multiplied by 0.1, 0.01, …
	maxDigits     = 8
	maxRatio      = 1 << 16
	maxNearDigits = 9 // nanoseconds as seconds
)

const (
	maxExact = 1 << 53
	// A column may hold one exception in so many values: NaN in a column of
	// decimals must not cost the others their short form.
	exceptionShare = 16
)

// AppendFloats encodes a column of at most [MaxValues] floats, bit for bit.
func (e *Encoder) AppendFloats(dst []byte, vs []float64) []byte {
	if len(vs) > 0 && constant(vs) {
		dst = appendHeader(dst, len(vs), floatConstant)
		return binary.LittleEndian.AppendUint64(dst, math.Float64bits(vs[0]))
	}
	for _, kind := range e.candidates(vs) {
		if ints, odd, ok := e.mapFloats(vs, kind, powerOfTen(kind)); ok {
			dst = appendHeader(dst, len(vs), kind)
			dst = appendExceptions(dst, vs, odd)
			return e.appendInts(dst, ints, maxIntOrder)
		}
	}
	if n := sharesOf(probe(vs)); n > 1 {
		if ints, odd, ok := e.mapFloats(vs, floatRatio, n); ok {
			dst = appendHeader(dst, len(vs), floatRatio)
			dst = binary.AppendUvarint(dst, uint64(n))
			dst = appendExceptions(dst, vs, odd)
			return e.appendInts(dst, ints, maxIntOrder)
		}
	}
	start := len(dst)
	dst = appendHeader(dst, len(vs), floatGeneral)
	ints := e.room(len(vs))
	for i, v := range vs {
		ints[i] = ordered(v)
	}
	dst = e.appendInts(dst, ints, maxFloatOrder)
	middle := len(dst)
	return shorter(e.appendNear(dst, vs), start, middle)
}

// appendNear writes nothing when the values are not near to decimals.
func (e *Encoder) appendNear(dst []byte, vs []float64) []byte {
	kind, digits := nearKind(probe(vs))
	if digits == 0 {
		return dst
	}
	ints, unit := e.room(len(vs)), decimals(kind, digits)
	e.steps = e.steps[:0]
	var odd []int
	last := int64(0)
	for i, v := range vs {
		n, step, fits := unit.near(v)
		if !fits {
			odd = append(odd, i)
			n, step = last, 0
		}
		ints[i], last = n, n
		e.steps = append(e.steps, step)
	}
	if len(odd) > len(vs)/exceptionShare {
		return dst
	}
	dst = append(appendHeader(dst, len(vs), kind), byte(digits))
	dst = appendExceptions(dst, vs, odd)
	inner := e.appendInts(nil, ints, maxIntOrder)
	dst = append(binary.AppendUvarint(dst, uint64(len(inner))), inner...)
	return e.appendInts(dst, e.steps, maxIntOrder)
}

// nearKind is how most values came to be near to decimals, and of how many digits; 0 when
// they are not.
func nearKind(vs []float64) (kind byte, digits int) {
	for digits = 1; digits <= maxNearDigits; digits++ {
		if exact, fits := decimals(floatNear, digits).nearAll(vs); fits {
			if products, fits := decimals(floatProduct, digits).nearAll(vs); fits && products > exact {
				return floatProduct, digits
			}
			return floatNear, digits
		}
	}
	return 0, 0
}

// unit is a power of ten of which whole numbers make decimals.
type unit struct {
	scale, size float64
	product     bool // with the size, instead of a quotient by the scale: another float for many
}

func decimals(kind byte, digits int) unit {
	scale := powerOfTen(floatDecimal + byte(digits))
	return unit{scale, 1 / scale, kind == floatProduct}
}

// of is the n-th decimal.
func (u unit) of(n int64) float64 {
	if u.product {
		return float64(n) * u.size
	}
	return float64(n) / u.scale
}

// near is the decimal n that a value is next to, and how many floats it is away: what a sum
// of decimals is off by. A value fits when that is far less than from one decimal to the next.
func (u unit) near(v float64) (n, step int64, fits bool) {
	const farLess = 256
	scaled := math.RoundToEven(v * u.scale)
	if !(scaled > -maxExact && scaled < maxExact) {
		return 0, 0, false
	}
	n = int64(scaled)
	decimal := u.of(n)
	step = ordered(v) - ordered(decimal)
	far := (ordered(decimal+u.size) - ordered(decimal)) / farLess
	return n, step, -far < step && step < far
}

// nearAll reports whether all but a few values fit, and how many are decimals themselves.
func (u unit) nearAll(vs []float64) (exact int, fits bool) {
	odd := 0
	for _, v := range vs {
		if _, step, fits := u.near(v); !fits {
			if odd++; odd > len(vs)/exceptionShare {
				return 0, false
			}
		} else if step == 0 {
			exact++
		}
	}
	return exact, true
}

func constant(vs []float64) bool {
	first := math.Float64bits(vs[0])
	for _, v := range vs {
		if math.Float64bits(v) != first {
			return false
		}
	}
	return true
}

// probe is the values that say which kinds are worth a try.
func probe(vs []float64) []float64 { return vs[:min(len(vs), 64)] }

// sharesOf is the number by which whole numbers were divided to make most of the values, 0
// when there is none up to maxRatio. It is what their denominators have in common.
func sharesOf(vs []float64) float64 {
	n, odd := 1, 0
	for _, v := range vs {
		if _, fits := toInt(v, floatRatio, float64(n)); fits {
			continue
		}
		q := denominator(v)
		if q == 0 {
			if odd++; odd > len(vs)/exceptionShare {
				return 0
			}
			continue
		}
		if n *= q / int(gcd(uint64(n), uint64(q))); n > maxRatio {
			return 0
		}
	}
	return float64(n)
}

// denominator is the least one of a fraction that is rounded to v, by v's continued
// fraction; 0 when it is above maxRatio.
func denominator(v float64) int {
	x := math.Abs(v)
	if !(x < maxExact/maxRatio) {
		return 0
	}
	before, q := 0, 1
	for x -= math.Floor(x); x > 0; {
		x = 1 / x
		whole := math.Floor(x)
		if whole > maxRatio {
			return 0
		}
		before, q = q, int(whole)*q+before
		if q > maxRatio {
			return 0
		}
		if _, fits := toInt(v, floatRatio, float64(q)); fits {
			return q
		}
		x -= whole
	}
	return 0
}

// candidates are the kinds that fit the first values, the cheapest first.
func (e *Encoder) candidates(vs []float64) (out []byte) {
	first := probe(vs)
	for kind := floatInteger; kind <= floatDecimal+maxDigits; kind++ {
		if kind == floatConstant {
			kind = floatDecimal + 1
		}
		if _, _, ok := e.mapFloats(first, byte(kind), powerOfTen(byte(kind))); ok {
			out = append(out, byte(kind))
		}
	}
	if i := indexOf(out, floatSingle); i >= 0 { // decimals of few digits are shorter than singles
		out = append(append(out[:i:i], out[i+1:]...), floatSingle)
	}
	return out
}

func indexOf(list []byte, b byte) int {
	for i, v := range list {
		if v == b {
			return i
		}
	}
	return -1
}

// mapFloats turns floats into integers of a kind; values that do not fit are
// exceptions and repeat the integer before. ok is false when there are too many.
// The integers live until the next call.
func (e *Encoder) mapFloats(vs []float64, kind byte, scale float64) (ints []int64, odd []int, ok bool) {
	ints = e.room(len(vs))
	last := int64(0)
	for i, v := range vs {
		n, fits := toInt(v, kind, scale)
		if !fits {
			odd = append(odd, i)
			if len(odd) > len(vs)/exceptionShare {
				return nil, nil, false
			}
			n = last
		}
		ints[i], last = n, n
	}
	return ints, odd, true
}

// room is scratch space for n integers.
func (e *Encoder) room(n int) []int64 {
	if cap(e.mapped) < n {
		e.mapped = make([]int64, n)
	}
	return e.mapped[:n]
}

func toInt(v float64, kind byte, scale float64) (int64, bool) {
	if kind == floatSingle {
		f := float32(v)
		return orderedSingle(f), math.Float64bits(float64(f)) == math.Float64bits(v)
	}
	scaled := math.RoundToEven(v * scale) // one instruction; a tie fits in neither way
	if !(scaled > -maxExact && scaled < maxExact) {
		return 0, false
	}
	n := int64(scaled)
	return n, math.Float64bits(float64(n)/scale) == math.Float64bits(v)
}

// powerOfTen is the factor of a kind, exact up to 10^22.
func powerOfTen(kind byte) float64 {
	p := 1.0
	for k := byte(floatDecimal); k < kind; k++ {
		p *= 10
	}
	return p
}

// ordered maps floats to integers in the order of the floats; it is its own
// inverse on the bits.
func ordered(v float64) int64 {
	b := int64(math.Float64bits(v))
	return b ^ int64(uint64(b>>63)>>1)
}

func unordered(n int64) float64 {
	return math.Float64frombits(uint64(n ^ int64(uint64(n>>63)>>1)))
}

func orderedSingle(v float32) int64 {
	b := int32(math.Float32bits(v))
	return int64(b ^ int32(uint32(b>>31)>>1))
}

func unorderedSingle(n int64) float64 {
	b := int32(n)
	return float64(math.Float32frombits(uint32(b ^ int32(uint32(b>>31)>>1))))
}

// appendExceptions writes their count, then place and bits of each.
func appendExceptions(dst []byte, vs []float64, odd []int) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(odd)))
	for _, i := range odd {
		dst = binary.AppendUvarint(dst, uint64(i))
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(vs[i]))
	}
	return dst
}

type exception struct {
	at int
	v  float64
}

func readExceptions(b []byte, n int) ([]exception, []byte, error) {
	count, size := binary.Uvarint(b)
	if size <= 0 || count > uint64(n) || count*9 > uint64(len(b)) {
		return nil, nil, ErrCorrupt
	}
	b = b[size:]
	out := make([]exception, 0, count)
	for range count {
		at, size := binary.Uvarint(b)
		if size <= 0 || at >= uint64(n) || len(b) < size+8 {
			return nil, nil, ErrCorrupt
		}
		out = append(out, exception{int(at), math.Float64frombits(binary.LittleEndian.Uint64(b[size:]))})
		b = b[size+8:]
	}
	return out, b, nil
}

// Floats decodes a column of at most maxValues floats.
func (d *Decoder) Floats(b []byte, maxValues int) ([]float64, error) {
	n, kind, b, err := header(b, maxValues)
	if err != nil {
		return nil, err
	}
	switch {
	case kind == floatConstant:
		if len(b) < 8 {
			return nil, ErrCorrupt
		}
		out := make([]float64, n)
		for i := range out {
			out[i] = math.Float64frombits(binary.LittleEndian.Uint64(b))
		}
		return out, nil
	case kind == floatGeneral:
		return d.mapped(b, n, kind, 1, maxFloatOrder, nil)
	case kind == floatRatio:
		of, size := binary.Uvarint(b)
		if size <= 0 || of < 2 || of > maxRatio {
			return nil, ErrCorrupt
		}
		odd, rest, err := readExceptions(b[size:], n)
		if err != nil {
			return nil, err
		}
		return d.mapped(rest, n, kind, float64(of), maxIntOrder, odd)
	case kind == floatNear, kind == floatProduct:
		return d.near(b, n, kind)
	case kind == floatInteger, kind == floatSingle, kind > floatDecimal && kind <= floatDecimal+maxDigits:
		odd, rest, err := readExceptions(b, n)
		if err != nil {
			return nil, err
		}
		return d.mapped(rest, n, kind, powerOfTen(kind), maxIntOrder, odd)
	}
	return nil, ErrVersion
}

// near reads decimals and the steps from them.
func (d *Decoder) near(b []byte, n int, kind byte) ([]float64, error) {
	if len(b) == 0 || b[0] == 0 || b[0] > maxNearDigits {
		return nil, ErrCorrupt
	}
	unit := decimals(kind, int(b[0]))
	odd, b, err := readExceptions(b[1:], n)
	if err != nil {
		return nil, err
	}
	size, k := binary.Uvarint(b)
	if k <= 0 || size > uint64(len(b)-k) {
		return nil, ErrCorrupt
	}
	ints, err := d.ints(b[k:k+int(size)], n, maxIntOrder)
	if err != nil {
		return nil, err
	}
	steps, err := d.ints(b[k+int(size):], n, maxIntOrder)
	if err != nil {
		return nil, err
	}
	if len(ints) != n || len(steps) != n {
		return nil, ErrCorrupt
	}
	out := make([]float64, n)
	for i, v := range ints {
		out[i] = unordered(ordered(unit.of(v)) + steps[i])
	}
	for _, x := range odd {
		out[x.at] = x.v
	}
	return out, nil
}

func (d *Decoder) mapped(b []byte, n int, kind byte, scale float64, maxOrder int, odd []exception) ([]float64, error) {
	ints, err := d.ints(b, n, maxOrder)
	if err != nil {
		return nil, err
	}
	if len(ints) != n {
		return nil, ErrCorrupt
	}
	out := make([]float64, n)
	switch kind {
	case floatGeneral:
		for i, v := range ints {
			out[i] = unordered(v)
		}
	case floatSingle:
		for i, v := range ints {
			out[i] = unorderedSingle(v)
		}
	default:
		for i, v := range ints {
			out[i] = float64(v) / scale
		}
	}
	for _, x := range odd {
		out[x.at] = x.v
	}
	return out, nil
}
