package otlp

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"

	"go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/proto"

	"github.com/kymogram/kymogram/internal/model"
)

// Suffixes of the series beside a histogram or a summary.
const (
	suffixCount = "_count"
	suffixSum   = "_sum"
	suffixMin   = "_min"
	suffixMax   = "_max"
)

// maxTime is the largest time that is stored, in Unix nanoseconds: the year 2116.
const maxTime = 1 << 62

// dated is what all data points have.
type dated interface {
	proto.Message
	GetAttributes() []*v1.KeyValue
	GetTimeUnixNano() uint64
	GetFlags() uint32
}

// open reads a data point: its time, and its labels in m.labels. It is over where the point
// says that it has no value, or cannot be taken.
func (m *metric) open(b []byte, into dated) (timeNs int64, over bool, err error) {
	proto.Reset(into)
	if err := unmarshal.Unmarshal(b, into); err != nil {
		return 0, false, errWire
	}
	cost := costAttribute*len(into.GetAttributes()) + costShared*len(m.scope)
	if with, ok := into.(interface{ GetExemplars() []*metrics.Exemplar }); ok {
		cost += costExemplar * len(with.GetExemplars())
		m.stats.Exemplars += uint64(len(with.GetExemplars()))
	}
	if err := m.spend(cost); err != nil {
		return 0, false, err
	}
	at := into.GetTimeUnixNano()
	switch {
	case into.GetFlags()&uint32(metrics.DataPointFlags_DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK) != 0:
		m.stats.Empty++
		return 0, true, nil
	case at > maxTime:
		return 0, true, m.reject("the time of a data point of %q is %d ns, out of range", model.Clip(m.name), at)
	case at == 0:
		timeNs = m.now
	default:
		timeNs = int64(at)
	}
	if n := len(m.scope) + len(into.GetAttributes()); n > maxLabels {
		return 0, true, m.reject("a data point of %q has %d attributes, with those of its scope, at most %d", model.Clip(m.name), n, maxLabels)
	}
	m.labels = append(m.labels[:0], m.scope...)
	if m.delta {
		m.labels = append(m.labels, model.Label{Name: labelTemporality, Value: "delta"})
	}
	for _, a := range into.GetAttributes() {
		m.labels = append(m.labels, model.Label{Name: a.GetKey(), Value: text(a.GetValue())})
	}
	slices.SortFunc(m.labels, byName)
	for i := 1; i < len(m.labels); i++ {
		if m.labels[i].Name == m.labels[i-1].Name {
			return 0, true, m.reject("a data point of %q has the attribute %q twice", model.Clip(m.name), model.Clip(m.labels[i].Name))
		}
	}
	return timeNs, false, nil
}

// float and integer add a value of the metric, or of a series beside it.
func (m *metric) float(suffix string, timeNs int64, v float64) error {
	return m.add(m.part, m.name+suffix, m.labels, timeNs, v, 0, false)
}

func (m *metric) integer(suffix string, timeNs, v int64) error {
	return m.add(m.part, m.name+suffix, m.labels, timeNs, 0, v, true)
}

// number reads a NumberDataPoint of a gauge or a sum.
func (m *metric) number(b []byte) error {
	p := &m.one.number
	at, over, err := m.open(b, p)
	if err != nil || over {
		return err
	}
	switch v := p.GetValue().(type) {
	case *metrics.NumberDataPoint_AsInt:
		return m.integer("", at, v.AsInt)
	case *metrics.NumberDataPoint_AsDouble:
		return m.float("", at, v.AsDouble)
	}
	return m.reject("a data point of %q has no value", model.Clip(m.name))
}

// histogram reads a HistogramDataPoint.
func (m *metric) histogram(b []byte) error {
	p := &m.one.histogram
	at, over, err := m.open(b, p)
	if err != nil || over {
		return err
	}
	counts, bounds := p.GetBucketCounts(), p.GetExplicitBounds()
	if len(counts) > 0 && len(counts) != len(bounds)+1 {
		return m.reject("a histogram of %q has %d buckets between %d bounds", model.Clip(m.name), len(counts), len(bounds))
	}
	if err := m.beside(at, p.GetCount(), p.Sum, p.Min, p.Max); err != nil || len(bounds) == 0 || len(counts) == 0 {
		return err
	}
	return m.bins(at, explicitBins(counts, bounds, p.Min, p.Max))
}

// exponential reads an ExponentialHistogramDataPoint.
func (m *metric) exponential(b []byte) error {
	p := &m.one.exponential
	at, over, err := m.open(b, p)
	if err != nil || over {
		return err
	}
	if err := m.beside(at, p.GetCount(), p.Sum, p.Min, p.Max); err != nil || p.GetCount() == 0 {
		return err
	}
	return m.bins(at, exponentialBins(p))
}

// beside adds the numbers that a histogram has beside its buckets. No process counts to 2⁵³.
func (m *metric) beside(at int64, count uint64, sum, low, high *float64) error {
	observations := float64(count)
	for _, part := range []struct {
		suffix string
		value  *float64
	}{{suffixCount, &observations}, {suffixSum, sum}, {suffixMin, low}, {suffixMax, high}} {
		if part.value != nil {
			if err := m.float(part.suffix, at, *part.value); err != nil {
				return err
			}
		}
	}
	return nil
}

// bins adds a histogram's buckets.
func (m *metric) bins(at int64, bins []model.Bin) error {
	if err := m.spend(costDocument + costBucket*len(bins)); err != nil {
		return err
	}
	h, err := model.NewHistogram(bins)
	if err != nil {
		m.stats.Histograms++
		return nil
	}
	doc, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("write a histogram: %w", err)
	}
	return m.document(m.part, m.name, m.labels, at, doc)
}

// summary reads a SummaryDataPoint.
func (m *metric) summary(b []byte) error {
	p := &m.one.summary
	at, over, err := m.open(b, p)
	if err != nil || over {
		return err
	}
	if err := m.spend(costQuantile * len(p.GetQuantileValues())); err != nil {
		return err
	}
	sum := p.GetSum()
	if err := m.beside(at, p.GetCount(), &sum, nil, nil); err != nil {
		return err
	}
	plain := slices.Clone(m.labels)
	for _, q := range p.GetQuantileValues() {
		m.labels = append(append(m.labels[:0], plain...), model.Label{Name: labelQuantile, Value: digits(q.GetQuantile())})
		slices.SortFunc(m.labels, byName)
		if err := m.float("", at, q.GetValue()); err != nil {
			return err
		}
	}
	return nil
}

// digits is the shortest text of a number that is read back as it.
func digits(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// text is an attribute's value as a label: what is no text is written as the specification
// writes it for protocols without types (opentelemetry.io/docs/specs/otel/common).
func text(v *v1.AnyValue) string {
	switch v := plain(v).(type) {
	case nil:
		return ""
	case string:
		return v
	default:
		doc, _ := json.Marshal(v) // of plain values, which never fails
		return string(doc)
	}
}

// plain is a value as one of JSON.
func plain(v *v1.AnyValue) any {
	switch v := v.GetValue().(type) {
	case *v1.AnyValue_StringValue:
		return v.StringValue
	case *v1.AnyValue_BoolValue:
		return v.BoolValue
	case *v1.AnyValue_IntValue:
		return v.IntValue
	case *v1.AnyValue_DoubleValue:
		if math.IsNaN(v.DoubleValue) || math.IsInf(v.DoubleValue, 0) {
			return digits(v.DoubleValue)
		}
		return v.DoubleValue
	case *v1.AnyValue_BytesValue:
		return base64.StdEncoding.EncodeToString(v.BytesValue)
	case *v1.AnyValue_ArrayValue:
		list := []any{}
		for _, e := range v.ArrayValue.GetValues() {
			list = append(list, plain(e))
		}
		return list
	case *v1.AnyValue_KvlistValue:
		object := map[string]any{}
		for _, e := range v.KvlistValue.GetValues() {
			object[e.GetKey()] = plain(e.GetValue())
		}
		return object
	}
	return nil
}
