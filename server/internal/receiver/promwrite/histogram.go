package promwrite

import (
	"encoding/binary"
	"encoding/json"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kymogram/kymogram/internal/model"
)

// Fields of a native histogram, the same in both versions.
const (
	hCountInt       = 1
	hCountFloat     = 2
	hSum            = 3
	hSchema         = 4
	hZeroThreshold  = 5
	hZeroCountInt   = 6
	hZeroCountFloat = 7
	hNegativeSpans  = 8
	hNegativeDeltas = 9
	hNegativeCounts = 10
	hPositiveSpans  = 11
	hPositiveDeltas = 12
	hPositiveCounts = 13
	hTimestamp      = 15
	hCustomValues   = 16

	fSpanOffset = 1
	fSpanLength = 2
)

// Schemas of native histograms: bounds are powers of 2^(2^-schema), or listed.
const (
	minSchema    = -4
	maxSchema    = 8
	customSchema = -53
)

// maxHistogram is the size of a message whose buckets are read: some thousands. A program's
// histogram has hundreds.
const maxHistogram = 16 << 10

// staleBits is the NaN that ends a series (prometheus.io/docs/specs/prw).
const staleBits = 0x7ff0000000000002

// native is a native histogram as it was sent.
type native struct {
	count, sum, zeroThreshold, zeroCount float64
	schema                               int64
	negative, positive                   side
	custom                               []float64
	ms                                   int64
	brief                                bool // its buckets are too many and left out
}

// side is the buckets below or above zero.
type side struct {
	spans  []span
	counts []float64
	total  float64 // of the deltas so far
}

type span struct{ offset, length int64 }

// histogram takes a native histogram: its buckets as a histogram of the series,
// its count and sum as the series NAME_count and NAME_sum. One that the model
// cannot hold is counted as dropped, its count and sum are kept.
func (d *decoder) histogram(c *column, b []byte) error {
	h, err := readNative(b)
	if err != nil {
		return err
	}
	if err := d.spend(costDocument); err != nil {
		return err
	}
	d.stats.Histograms++
	for _, part := range []struct {
		suffix string
		value  float64
	}{{"_count", h.count}, {"_sum", h.sum}} {
		twin, err := d.twin(c, part.suffix)
		if err == nil {
			err = d.add(twin, part.value, h.ms)
		}
		if err != nil {
			return err
		}
		d.stats.Samples-- // it is part of the histogram
	}
	if math.Float64bits(h.sum) == staleBits {
		return nil
	}
	if err := d.spend(costBucket * (len(h.negative.counts) + len(h.positive.counts))); err != nil {
		return err
	}
	doc, ok := h.document()
	if !ok {
		d.stats.Dropped++
		return nil
	}
	c.docs = append(c.docs, document{h.ms * 1_000_000, doc})
	return nil
}

// twin is the series beside c whose name has a suffix.
func (d *decoder) twin(c *column, suffix string) (*column, error) {
	labels := []label{{[]byte(labelName), []byte(c.key.Metric + suffix)}}
	if c.named {
		labels = append(labels, label{[]byte(labelRun), []byte(c.run)})
	}
	for _, l := range c.key.Labels {
		labels = append(labels, label{[]byte(l.Name), []byte(l.Value)})
	}
	return d.column(labels)
}

func readNative(b []byte) (h native, err error) {
	m := message{b: b}
	h.brief = len(b) > maxHistogram
	for {
		field, t, ok := m.next()
		if !ok {
			return h, m.err
		}
		if h.brief && isBuckets(field) {
			m.skip(t)
			continue
		}
		switch t {
		case fixed64:
			h.float(field, m.double())
		case varint:
			h.int(field, m.uint())
		case length:
			err = h.bytes(field, m.bytes())
		default:
			m.skip(t)
		}
		if err != nil {
			return h, err
		}
	}
}

// isBuckets reports whether a field may have many values.
func isBuckets(field protowire.Number) bool {
	return field >= hNegativeSpans && field <= hPositiveCounts || field == hCustomValues
}

func (h *native) float(field protowire.Number, v float64) {
	switch field {
	case hCountFloat:
		h.count = v
	case hSum:
		h.sum = v
	case hZeroThreshold:
		h.zeroThreshold = v
	case hZeroCountFloat:
		h.zeroCount = v
	case hNegativeCounts:
		h.negative.counts = append(h.negative.counts, v)
	case hPositiveCounts:
		h.positive.counts = append(h.positive.counts, v)
	case hCustomValues:
		h.custom = append(h.custom, v)
	}
}

func (h *native) int(field protowire.Number, v uint64) {
	switch field {
	case hCountInt:
		h.count = float64(v)
	case hZeroCountInt:
		h.zeroCount = float64(v)
	case hSchema:
		h.schema = protowire.DecodeZigZag(v)
	case hTimestamp:
		h.ms = int64(v)
	case hNegativeDeltas:
		h.negative.delta(v)
	case hPositiveDeltas:
		h.positive.delta(v)
	}
}

// bytes reads spans and packed numbers.
func (h *native) bytes(field protowire.Number, b []byte) (err error) {
	switch field {
	case hNegativeSpans:
		err = h.negative.span(b)
	case hPositiveSpans:
		err = h.positive.span(b)
	case hNegativeDeltas:
		err = h.negative.deltas(b)
	case hPositiveDeltas:
		err = h.positive.deltas(b)
	case hNegativeCounts:
		h.negative.counts, err = doubles(h.negative.counts, b)
	case hPositiveCounts:
		h.positive.counts, err = doubles(h.positive.counts, b)
	case hCustomValues:
		h.custom, err = doubles(h.custom, b)
	}
	return err
}

// delta adds an integer bucket: its difference to the one before.
func (s *side) delta(v uint64) {
	s.total += float64(protowire.DecodeZigZag(v))
	s.counts = append(s.counts, s.total)
}

func (s *side) deltas(b []byte) error {
	m := message{b: b}
	for len(m.b) > 0 {
		if v := m.uint(); m.err == nil {
			s.delta(v)
		}
	}
	return m.err
}

func doubles(dst []float64, b []byte) ([]float64, error) {
	if len(b)%8 != 0 {
		return dst, errShort
	}
	for ; len(b) > 0; b = b[8:] {
		dst = append(dst, math.Float64frombits(binary.LittleEndian.Uint64(b)))
	}
	return dst, nil
}

func (s *side) span(b []byte) error {
	m := message{b: b}
	var out span
	for {
		field, t, ok := m.next()
		switch {
		case !ok:
			s.spans = append(s.spans, out)
			return m.err
		case field == fSpanOffset && t == varint:
			out.offset = int64(int32(protowire.DecodeZigZag(m.uint())))
		case field == fSpanLength && t == varint:
			out.length = int64(uint32(m.uint()))
		default:
			m.skip(t)
		}
	}
}

// document is the histogram in the model's form; false when it has none.
func (h *native) document() ([]byte, bool) {
	bins, ok := h.bins()
	if !ok || len(bins) == 0 || h.brief {
		return nil, false
	}
	out, err := model.NewHistogram(bins)
	if err != nil {
		return nil, false
	}
	doc, err := json.Marshal(out)
	return doc, err == nil
}

// bins are the buckets with finite bounds, in no order.
func (h *native) bins() (out []model.Bin, ok bool) {
	if h.schema != customSchema && (h.schema < minSchema || h.schema > maxSchema) {
		return nil, false
	}
	if h.zeroCount > 0 && h.schema != customSchema {
		edge := max(h.zeroThreshold, math.SmallestNonzeroFloat64)
		out = append(out, model.Bin{Lo: -edge, Hi: edge, Count: h.zeroCount})
	}
	for _, s := range []struct {
		side *side
		sign float64
	}{{&h.negative, -1}, {&h.positive, 1}} {
		at, n := int64(0), 0
		for _, span := range s.side.spans {
			at += span.offset
			if span.length > int64(len(s.side.counts)-n) {
				return nil, false
			}
			for range span.length {
				lo, hi, ok := h.bounds(at)
				if !ok {
					return nil, false
				}
				b := model.Bin{Lo: lo, Hi: hi, Count: s.side.counts[n]}
				if s.sign < 0 {
					b.Lo, b.Hi = -hi, -lo
				}
				if b.Count != 0 {
					out = append(out, b)
				}
				at, n = at+1, n+1
			}
		}
		if n != len(s.side.counts) {
			return nil, false
		}
	}
	return out, true
}

// bounds are those of a bucket; infinite ones become the largest finite number,
// and the zero bucket's threshold cuts what it covers.
func (h *native) bounds(at int64) (lo, hi float64, ok bool) {
	if h.schema == customSchema {
		lo, hi = -math.MaxFloat64, math.MaxFloat64
		if at < 0 || at > int64(len(h.custom)) {
			return 0, 0, false
		}
		if at > 0 {
			lo = h.custom[at-1]
		}
		if at < int64(len(h.custom)) {
			hi = h.custom[at]
		}
		return lo, hi, true
	}
	const most = 1 << 20 // exponents of float64 times 2^8
	if at < -most || at > most {
		return 0, 0, false
	}
	power := func(i int64) float64 { return min(math.Exp2(math.Ldexp(float64(i), int(-h.schema))), math.MaxFloat64) }
	lo, hi = max(power(at-1), h.zeroThreshold), power(at)
	return lo, hi, lo < hi
}
