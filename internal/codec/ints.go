package codec

import (
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
	"slices"

	"github.com/klauspost/compress/huff0"
)

// Kinds of residual streams.
const (
	streamConstant = 0 // one value
	streamPacked   = 1 // width, then every value in so many bits
	streamHuff1    = 2 // classes in one Huffman stream, then low bits
	streamHuff4    = 3 // the same in four interleaved streams
	streamOneClass = 4 // the class, then low bits
)

const (
	maxIntOrder   = 2
	maxFloatOrder = 5
	sampleSize    = 384
	huff4From     = 1024
	huffFrom      = 24 // below it a table costs more than it saves
	dividedFrom   = 5  // about as many values as base and divisor take the room of
)

// A mean follows the values behind it by a quarter or a 32nd of their distance.
const (
	quickly     = 2
	slowly      = 5
	easeShift   = 4 // where it is in the order's byte
	worthEasing = 2 // bits a value; below it there is little to gain

	worthCentring = 0.1 // bits a value
	tableBits     = 64  // of classes that a short column would not need otherwise, about
)

// centred stands in the place of a mean's speed: residuals are counted from one number.
const centred = 15

// intDivided is the kind of a column of multiples; base, divisor and order follow.
const intDivided = 8

// intListed is the kind of a column of places in a list of its different values.
const intListed = 10

// intRuns is the kind of a column of values that repeat: the values, and how often each stands.
const intRuns = 11

// runsFrom is how many values a run must have on average.
const runsFrom = 4

// AppendInts encodes a column of at most [MaxValues] integers.
func (e *Encoder) AppendInts(dst []byte, vs []int64) []byte {
	return e.appendInts(dst, vs, maxIntOrder)
}

// AppendIntsByList encodes a column as AppendInts does, or as a list of its different values
// and the place of each in it, whatever is shorter.
func (e *Encoder) AppendIntsByList(dst []byte, vs []int64) []byte {
	start := len(dst)
	dst = e.AppendInts(dst, vs)
	list := slices.Clone(vs)
	slices.Sort(list)
	if list = slices.Compact(list); len(list) > len(vs)/2 {
		return dst
	}
	places := make([]int64, len(vs))
	for i, v := range vs {
		at, _ := slices.BinarySearch(list, v)
		places[i] = int64(at - len(list)/2) // of both signs: half of the classes are for each
	}
	middle := len(dst)
	return shorter(e.appendTwo(dst, len(vs), intListed, list, places, maxIntOrder), start, middle)
}

// appendInts writes a column as differences or as runs of one value, whatever is shorter.
func (e *Encoder) appendInts(dst []byte, vs []int64, maxOrder int) []byte {
	start := len(dst)
	dst = e.appendDifferences(dst, vs, maxOrder)
	if !e.inRuns(vs) {
		return dst
	}
	middle := len(dst)
	return shorter(e.appendTwo(dst, len(vs), intRuns, e.heads, e.lengths, maxOrder), start, middle)
}

// appendTwo writes a column that is made of two others, with the length of the first.
func (e *Encoder) appendTwo(dst []byte, n int, kind byte, first, second []int64, maxOrder int) []byte {
	e.part = e.appendDifferences(e.part[:0], first, maxOrder)
	dst = appendHeader(dst, n, kind)
	dst = append(binary.AppendUvarint(dst, uint64(len(e.part))), e.part...)
	return e.appendDifferences(dst, second, maxIntOrder)
}

// shorter keeps one of two ways to write a column from start on: that before the middle, or
// that behind it, if there is one.
func shorter(dst []byte, start, middle int) []byte {
	if n := len(dst) - middle; n > 0 && n < middle-start {
		return append(dst[:start], dst[middle:]...)
	}
	return dst[:middle]
}

// inRuns divides values into runs, and reports whether they are long enough to be tried.
func (e *Encoder) inRuns(vs []int64) bool {
	runs := 1
	for i := 1; i < len(vs); i++ {
		if vs[i] != vs[i-1] {
			if runs++; runs > len(vs)/runsFrom {
				return false
			}
		}
	}
	e.heads, e.lengths = e.heads[:0], e.lengths[:0]
	for i, v := range vs {
		if i == 0 || v != vs[i-1] {
			e.heads, e.lengths = append(e.heads, v), append(e.lengths, 0)
		}
		e.lengths[len(e.lengths)-1]++
	}
	return runs > 1
}

// appendDifferences writes: count, order, the values that it starts with, the residuals. When
// all values are a multiple of a number apart, that number and the multiples are written.
func (e *Encoder) appendDifferences(dst []byte, vs []int64, maxOrder int) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(vs)))
	e.residuals = append(e.residuals[:0], vs...)
	order, ease, middle := 0, uint(0), int64(0)
	switch {
	case !even(vs):
		if g := divisor(vs); g > 1 {
			base := divide(e.residuals, g)
			dst = binary.AppendUvarint(append(dst, intDivided), uint64(base))
			dst = binary.AppendUvarint(dst, uint64(g))
		}
		order, ease, middle = e.bestOrder(e.residuals, maxOrder)
	case len(vs) > 1 && vs[0] != vs[1]:
		order = 1
	}
	dst = append(dst, byte(ease<<easeShift)|byte(order))
	difference(e.residuals, order)
	starts := order
	if ease > 0 && ease < centred {
		leave(e.residuals[order:], ease)
		starts++
	}
	for _, v := range e.residuals[:starts] {
		dst = binary.AppendVarint(dst, v)
	}
	if ease == centred {
		dst = binary.AppendVarint(dst, middle)
		shift(e.residuals[order:], -middle)
	}
	return e.appendStream(dst, e.residuals[starts:])
}

func shift(vs []int64, by int64) {
	for i := range vs {
		vs[i] += by
	}
}

// even reports whether all values are at one distance.
func even(vs []int64) bool {
	for i := 2; i < len(vs); i++ {
		if vs[i]-vs[i-1] != vs[1]-vs[0] {
			return false
		}
	}
	return true
}

// divisor is what the differences of all values have in common; 1 when dividing by it would
// save less than it costs.
func divisor(vs []int64) int64 {
	g := uint64(0)
	for _, v := range vs[min(1, len(vs)):] {
		d := uint64(v) - uint64(vs[0])
		if v < vs[0] {
			d = -d
		}
		if g != 0 && d%g == 0 {
			continue
		}
		if g = gcd(g, d); g == 1 {
			return 1
		}
	}
	if g > math.MaxInt64 || (len(vs)-dividedFrom)*(bits.Len64(g)-1) <= 3*8 {
		return 1
	}
	return int64(g)
}

// gcd has no division: most columns have no common divisor, and should pay little to learn it.
func gcd(a, b uint64) uint64 {
	if a == 0 || b == 0 {
		return a | b
	}
	twos := bits.TrailingZeros64(a | b)
	for a >>= bits.TrailingZeros64(a); b != 0; {
		b >>= bits.TrailingZeros64(b)
		a, b = min(a, b), max(a, b)-min(a, b)
	}
	return a << twos
}

// divide replaces values by their multiples of g above base, which is below g.
func divide(vs []int64, g int64) (base int64) {
	if base = vs[0] % g; base < 0 {
		base += g
	}
	for i, v := range vs {
		q := v / g
		if v%g < 0 { // rounded to 0: with base ≥ 0 it has to be rounded down
			q--
		}
		vs[i] = q
	}
	return base
}

// difference replaces vs by differences of an order in place; place i < order
// keeps the difference of order i, which undoing it needs.
func difference(vs []int64, order int) {
	for k := range order {
		for i := len(vs) - 1; i > k; i-- {
			vs[i] -= vs[i-1]
		}
	}
}

func integrate(vs []int64, order int) {
	for k := order - 1; k >= 0; k-- {
		for i := k + 1; i < len(vs); i++ {
			vs[i] += vs[i-1]
		}
	}
}

// leave replaces values behind the first by their distance from a mean that follows them:
// each distance moves it by a part of 2^ease. Noise around a level costs half a bit less
// so than as differences.
func leave(vs []int64, ease uint) {
	mean := vs[0]
	for i, v := range vs[1:] {
		d := v - mean
		mean += d >> ease
		vs[i+1] = d
	}
}

// rejoin undoes leave.
func rejoin(vs []int64, ease uint) {
	mean := vs[0]
	for i, d := range vs[1:] {
		vs[i+1] = mean + d
		mean += d >> ease
	}
}

// bestOrder estimates the size under each order on a sample from the middle, and whether a
// mean of the order below does better, or a number in the middle of the differences.
func (e *Encoder) bestOrder(vs []int64, maxOrder int) (best int, ease uint, middle int64) {
	maxOrder = min(maxOrder, len(vs))
	from := max(0, (len(vs)-sampleSize)/2)
	sample := vs[from:min(len(vs), from+sampleSize)]
	e.work = append(e.work[:0], sample...)
	least, last := math.Inf(1), math.Inf(1)
	for order := 0; order <= maxOrder && order < max(len(sample), 1); order++ {
		cost := e.estimate(e.work[order:]) * (1 - 1e-9*float64(order))
		if cost < least-1e-6 {
			best, least = order, cost
		}
		if order >= maxIntOrder && cost > last { // it gets only worse
			break
		}
		last = cost
		for i := len(e.work) - 1; i > order; i-- {
			e.work[i] -= e.work[i-1]
		}
	}
	if best > maxIntOrder || least < worthEasing || len(vs) < huffFrom {
		return best, 0, 0
	}
	try := func(order int, k uint, worth float64) bool {
		e.work = append(e.work[:0], sample...)
		difference(e.work, order)
		rest := e.work[order:]
		if k == centred {
			shift(rest, -middle)
		} else {
			leave(rest, k)
			rest = rest[1:]
		}
		cost := e.estimate(rest)
		if cost >= least-worth {
			return false
		}
		best, ease, least = order, k, cost
		return true
	}
	first := best
	if first > 0 {
		if middle = middleStep(sample); middle != 0 {
			try(1, centred, worthCentring+tableBits/float64(len(vs)))
		}
	}
	if order := max(first-1, 0); first == 0 || try(order, quickly, 1e-6) {
		try(order, slowly, 1e-6)
	}
	return best, ease, middle
}

// middleStep is a difference in the middle of some; 0 when they are of both signs, as those
// of noise are, which no number in the middle makes smaller.
func middleStep(vs []int64) int64 {
	var steps [31]int64
	n := 0
	for i := 1; i < len(vs) && n < len(steps); i += max(1, len(vs)/len(steps)) {
		steps[n] = vs[i] - vs[i-1]
		if steps[n]^steps[0] < 0 {
			return 0
		}
		n++
	}
	slices.Sort(steps[:n])
	return steps[n/2]
}

// estimate is the bits per value of a sample: entropy of the classes plus low
// bits.
func (e *Encoder) estimate(vs []int64) float64 {
	if len(vs) == 0 {
		return 0
	}
	var counts [256]uint16
	low := uint(0)
	for _, v := range vs {
		s, n := class(zigzag(v))
		counts[s]++
		low += n
	}
	total := float64(low) + e.nlogn[len(vs)]
	for _, c := range counts {
		total -= e.nlogn[c]
	}
	return total / float64(len(vs))
}

// nlogn is n·log₂n up to the size of a sample.
func nlogn() []float64 {
	out := make([]float64, sampleSize+1)
	for n := 2; n <= sampleSize; n++ {
		out[n] = float64(n) * math.Log2(float64(n))
	}
	return out
}

// appendStream writes residuals in the smaller of two ways.
func (e *Encoder) appendStream(dst []byte, vs []int64) []byte {
	if len(vs) == 0 {
		return dst
	}
	var all, some uint64
	all = ^uint64(0)
	for _, v := range vs {
		z := zigzag(v)
		all, some = all&z, some|z
	}
	if all == some {
		return binary.AppendUvarint(append(dst, streamConstant), some)
	}
	width := uint(bits.Len64(some))
	packed := 2 + (len(vs)*int(width)+7)/8
	if len(vs) >= huffFrom {
		if out, ok := e.appendClasses(dst, vs, packed); ok {
			return out
		}
	}
	e.low.reset()
	for _, v := range vs {
		e.low.write(zigzag(v), width)
	}
	return append(append(dst, streamPacked, byte(width)), e.low.bytes()...)
}

// appendClasses is false when it does not stay below limit bytes.
func (e *Encoder) appendClasses(dst []byte, vs []int64, limit int) ([]byte, bool) {
	e.symbols = e.symbols[:0]
	e.low.reset()
	for _, v := range vs {
		z := zigzag(v)
		s, n := class(z)
		e.symbols = append(e.symbols, s)
		e.low.write(z, n)
	}
	low := e.low.bytes()
	compress, kind := huff0.Compress1X, byte(streamHuff1)
	if len(vs) >= huff4From {
		compress, kind = huff0.Compress4X, streamHuff4
	}
	start := len(dst)
	table, _, err := compress(e.symbols, &e.huff)
	switch {
	case errors.Is(err, huff0.ErrUseRLE):
		dst = append(dst, streamOneClass, e.symbols[0])
	case err != nil:
		return dst, false
	default:
		dst = append(dst, kind)
		dst = binary.AppendUvarint(dst, uint64(len(table)))
		dst = append(dst, table...)
	}
	dst = append(dst, low...)
	return dst, len(dst)-start < limit
}

// Ints decodes a column of at most maxValues integers.
func (d *Decoder) Ints(b []byte, maxValues int) ([]int64, error) {
	return d.ints(b, maxValues, maxIntOrder)
}

func (d *Decoder) ints(b []byte, maxValues, maxOrder int) ([]int64, error) {
	n, order, b, err := header(b, maxValues)
	switch {
	case err != nil:
		return nil, err
	case order == intListed:
		return d.listed(n, b)
	case order == intRuns:
		return d.runs(n, b, maxOrder)
	}
	return d.differences(n, order, b, maxOrder)
}

// listed reads places in a list of values.
func (d *Decoder) listed(n int, b []byte) ([]int64, error) {
	list, out, err := d.two(n, b, maxIntOrder)
	if err != nil {
		return nil, err
	}
	if len(out) != n {
		return nil, ErrCorrupt
	}
	half := int64(len(list) / 2)
	for i, at := range out {
		if uint64(at+half) >= uint64(len(list)) {
			return nil, ErrCorrupt
		}
		out[i] = list[at+half]
	}
	return out, nil
}

// runs reads values and how often each stands.
func (d *Decoder) runs(n int, b []byte, maxOrder int) ([]int64, error) {
	heads, lengths, err := d.two(n, b, maxOrder)
	if err != nil {
		return nil, err
	}
	if len(heads) != len(lengths) {
		return nil, ErrCorrupt
	}
	out := make([]int64, n)
	rest := out
	for i, v := range heads {
		if uint64(lengths[i]) > uint64(len(rest)) {
			return nil, ErrCorrupt
		}
		run := rest[:lengths[i]]
		for k := range run {
			run[k] = v
		}
		rest = rest[len(run):]
	}
	if len(rest) > 0 {
		return nil, ErrCorrupt
	}
	return out, nil
}

// two reads the two columns of differences that a column is made of.
func (d *Decoder) two(n int, b []byte, maxOrder int) (first, second []int64, err error) {
	size, k := binary.Uvarint(b)
	if k <= 0 || size > uint64(len(b)-k) {
		return nil, nil, ErrCorrupt
	}
	if first, err = d.plain(b[k:k+int(size)], n, maxOrder); err != nil {
		return nil, nil, err
	}
	second, err = d.plain(b[k+int(size):], n, maxIntOrder)
	return first, second, err
}

// plain reads a column that is not made of others.
func (d *Decoder) plain(b []byte, maxValues, maxOrder int) ([]int64, error) {
	n, order, b, err := header(b, maxValues)
	if err != nil {
		return nil, err
	}
	return d.differences(n, order, b, maxOrder)
}

// differences reads the residuals of an order, also of divided values.
func (d *Decoder) differences(n int, order byte, b []byte, maxOrder int) (_ []int64, err error) {
	base, g := uint64(0), uint64(1)
	if order == intDivided {
		if base, g, order, b, err = dividedHeader(b); err != nil {
			return nil, err
		}
	}
	order, ease := order&(1<<easeShift-1), uint(order>>easeShift)
	if int(order) > maxOrder {
		return nil, ErrVersion
	}
	starts := int(order)
	if ease > 0 { // what a mean begins with, or the number in the middle
		starts++
	}
	if starts > n {
		return nil, ErrCorrupt
	}
	out := make([]int64, n)
	for i := range starts {
		v, size := binary.Varint(b)
		if size <= 0 {
			return nil, ErrCorrupt
		}
		out[i], b = v, b[size:]
	}
	middle := int64(0)
	if ease == centred {
		starts--
		middle = out[starts]
	}
	if err := d.stream(out[starts:], b); err != nil {
		return nil, err
	}
	switch {
	case ease == centred:
		shift(out[order:], middle)
	case ease > 0:
		rejoin(out[order:], ease)
	}
	integrate(out, int(order))
	if g != 1 {
		for i, q := range out {
			out[i] = int64(base + g*uint64(q)) // wraps where the quotient was rounded down
		}
	}
	return out, nil
}

func dividedHeader(b []byte) (base, g uint64, order byte, rest []byte, err error) {
	base, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, 0, 0, nil, ErrCorrupt
	}
	g, m := binary.Uvarint(b[n:])
	if m <= 0 || base >= g || g > math.MaxInt64 || len(b) <= n+m {
		return 0, 0, 0, nil, ErrCorrupt
	}
	return base, g, b[n+m], b[n+m+1:], nil
}

// stream fills out with residuals.
func (d *Decoder) stream(out []int64, b []byte) error {
	if len(out) == 0 {
		return nil
	}
	if len(b) < 2 {
		return ErrCorrupt
	}
	kind, b := b[0], b[1:]
	switch kind {
	case streamConstant:
		z, size := binary.Uvarint(b)
		if size <= 0 {
			return ErrCorrupt
		}
		for i := range out {
			out[i] = unzigzag(z)
		}
		return nil
	case streamPacked:
		return d.packed(out, uint(b[0]), b[1:])
	case streamOneClass:
		d.symbols = append(d.symbols[:0], make([]byte, len(out))...)
		for i := range d.symbols {
			d.symbols[i] = b[0]
		}
		return d.lowBits(out, b[1:])
	case streamHuff1, streamHuff4:
		return d.classes(out, b, kind == streamHuff4)
	}
	return ErrVersion
}

func (d *Decoder) packed(out []int64, width uint, b []byte) error {
	if width > 64 || uint(len(b))*8 < width*uint(len(out)) {
		return ErrCorrupt
	}
	r := bitReader{b: d.padded(b)}
	for i := range out {
		out[i] = unzigzag(r.read(width))
	}
	return nil
}

func (d *Decoder) classes(out []int64, b []byte, four bool) error {
	size, n := binary.Uvarint(b)
	if n <= 0 || size > uint64(len(b)-n) {
		return ErrCorrupt
	}
	table, low := b[n:n+int(size)], b[n+int(size):]
	scratch, rest, err := huff0.ReadTable(table, d.huff)
	if err != nil {
		return ErrCorrupt
	}
	d.huff = scratch
	if cap(d.symbols) < len(out) {
		d.symbols = make([]byte, len(out))
	}
	dst := d.symbols[:0:len(out)]
	if four {
		d.symbols, err = scratch.Decoder().Decompress4X(dst[:len(out)], rest)
	} else {
		d.symbols, err = scratch.Decoder().Decompress1X(dst, rest)
	}
	if err != nil || len(d.symbols) != len(out) {
		d.symbols = nil
		return ErrCorrupt
	}
	return d.lowBits(out, low)
}

// lowBits joins d.symbols with their low bits.
func (d *Decoder) lowBits(out []int64, b []byte) error {
	total := uint(0)
	for _, s := range d.symbols {
		total += uint(d.width[s])
	}
	if uint(len(b))*8 < total {
		return ErrCorrupt
	}
	r := bitReader{b: d.padded(b)}
	for i, s := range d.symbols {
		out[i] = unzigzag(d.base[s] + r.read(uint(d.width[s])))
	}
	return nil
}
