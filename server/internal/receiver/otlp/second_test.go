package otlp

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/proto"

	"github.com/kymogram/kymogram/internal/model"
)

// known is a point, by what it is named: run, series and time, with its value.
type known map[string]string

func (k known) put(run, metric string, labels map[string]string, at uint64, value string) {
	names := make([]string, 0, len(labels))
	for name, v := range labels {
		names = append(names, fmt.Sprintf("%q=%q", name, v))
	}
	sort.Strings(names)
	k[fmt.Sprintf("%s %q{%s} %d", run, metric, strings.Join(names, ","), at)] = value
}

// shown is a value as every reader gives it: no more than a float64 holds is told of one.
func shown(v float64) string { return fmt.Sprint(v) }

// second reads a request whole, with the official types, and lists what it says. It leaves
// out the buckets of histograms, and counts what it leaves out.
func second(data *metrics.MetricsData) (points known, exemplars, empty int) {
	points = known{}
	for _, rm := range data.GetResourceMetrics() {
		said := map[string]string{}
		for _, a := range rm.GetResource().GetAttributes() {
			said[a.GetKey()] = secondText(a.GetValue())
		}
		run := "default"
		switch {
		case said["kymogram.run"] != "":
			run = said["kymogram.run"]
		case said["service.name"] != "" && said["service.instance.id"] != "":
			run = said["service.name"] + "/" + said["service.instance.id"]
		case said["service.name"] != "":
			run = said["service.name"]
		}
		for _, sm := range rm.GetScopeMetrics() {
			for _, m := range sm.GetMetrics() {
				base := func(attributes []*v1.KeyValue, delta bool) map[string]string {
					labels := map[string]string{}
					if name := sm.GetScope().GetName(); name != "" {
						labels["otel_scope_name"] = name
					}
					for _, a := range sm.GetScope().GetAttributes() {
						labels["otel_scope_"+a.GetKey()] = secondText(a.GetValue())
					}
					if delta {
						labels["otel_temporality"] = "delta"
					}
					for _, a := range attributes {
						labels[a.GetKey()] = secondText(a.GetValue())
					}
					return labels
				}
				numbers := func(list []*metrics.NumberDataPoint, delta bool) {
					for _, p := range list {
						exemplars += len(p.GetExemplars())
						if p.GetFlags()&1 != 0 {
							empty++
							continue
						}
						value := shown(p.GetAsDouble())
						if v, ok := p.GetValue().(*metrics.NumberDataPoint_AsInt); ok {
							if value = shown(float64(v.AsInt)); v.AsInt > 1<<53 || v.AsInt < -1<<53 {
								value = fmt.Sprint(v.AsInt)
							}
						}
						points.put(run, m.GetName(), base(p.GetAttributes(), delta), p.GetTimeUnixNano(), value)
					}
				}
				beside := func(labels map[string]string, at, count uint64, sum, low, high *float64) {
					points.put(run, m.GetName()+"_count", labels, at, shown(float64(count)))
					for suffix, v := range map[string]*float64{"_sum": sum, "_min": low, "_max": high} {
						if v != nil {
							points.put(run, m.GetName()+suffix, labels, at, shown(*v))
						}
					}
				}
				delta := func(t metrics.AggregationTemporality) bool { return t.String() == "AGGREGATION_TEMPORALITY_DELTA" }
				numbers(m.GetGauge().GetDataPoints(), false)
				numbers(m.GetSum().GetDataPoints(), delta(m.GetSum().GetAggregationTemporality()))
				for _, p := range m.GetHistogram().GetDataPoints() {
					beside(base(p.GetAttributes(), delta(m.GetHistogram().GetAggregationTemporality())), p.GetTimeUnixNano(), p.GetCount(), p.Sum, p.Min, p.Max)
				}
				for _, p := range m.GetExponentialHistogram().GetDataPoints() {
					beside(base(p.GetAttributes(), delta(m.GetExponentialHistogram().GetAggregationTemporality())), p.GetTimeUnixNano(), p.GetCount(), p.Sum, p.Min, p.Max)
				}
				for _, p := range m.GetSummary().GetDataPoints() {
					labels := base(p.GetAttributes(), false)
					beside(labels, p.GetTimeUnixNano(), p.GetCount(), &p.Sum, nil, nil)
					for _, q := range p.GetQuantileValues() {
						labels["quantile"] = shown(q.GetQuantile())
						points.put(run, m.GetName(), labels, p.GetTimeUnixNano(), shown(q.GetValue()))
					}
				}
			}
		}
	}
	return points, exemplars, empty
}

// secondText is an attribute's value as text.
func secondText(v *v1.AnyValue) string {
	switch v.GetValue().(type) {
	case *v1.AnyValue_StringValue:
		return v.GetStringValue()
	case *v1.AnyValue_BoolValue:
		return fmt.Sprint(v.GetBoolValue())
	case *v1.AnyValue_IntValue:
		return fmt.Sprint(v.GetIntValue())
	case *v1.AnyValue_ArrayValue:
		var list []any
		for _, e := range v.GetArrayValue().GetValues() {
			list = append(list, e.GetIntValue())
		}
		doc, _ := json.Marshal(list)
		return string(doc)
	}
	return ""
}

// random makes requests of all kinds of points.
type random struct{ *rand.Rand }

func (r random) attributes(most int) (out []*v1.KeyValue) {
	for i := range r.IntN(most + 1) {
		value := &v1.AnyValue{}
		switch r.IntN(4) {
		case 0:
			value.Value = &v1.AnyValue_StringValue{StringValue: fmt.Sprint("v", r.IntN(3))}
		case 1:
			value.Value = &v1.AnyValue_BoolValue{BoolValue: r.IntN(2) == 0}
		case 2:
			value.Value = &v1.AnyValue_IntValue{IntValue: r.Int64N(3) - 1}
		case 3:
			value.Value = &v1.AnyValue_ArrayValue{ArrayValue: &v1.ArrayValue{Values: []*v1.AnyValue{{Value: &v1.AnyValue_IntValue{IntValue: r.Int64N(3)}}}}}
		}
		out = append(out, &v1.KeyValue{Key: fmt.Sprint("k", i), Value: value})
	}
	r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

func (r random) value() float64 {
	return []float64{0, math.Copysign(0, -1), 1, r.NormFloat64(), math.NaN(), math.Inf(1), math.MaxFloat64, 5e-324}[r.IntN(8)]
}

func (r random) optional() *float64 {
	if r.IntN(2) == 0 {
		return nil
	}
	return proto.Float64(r.NormFloat64())
}

// metric has times of its own where two points of one series could meet: which of two in one
// request counts is the store's matter.
func (r random) metric(name string, at func() uint64) *metrics.Metric {
	m := &metrics.Metric{Name: name, Unit: "s", Description: "text"}
	temporality := metrics.AggregationTemporality(1 + r.IntN(2))
	var numbers []*metrics.NumberDataPoint
	for range r.IntN(4) {
		p := &metrics.NumberDataPoint{TimeUnixNano: at(), Attributes: r.attributes(3)}
		switch r.IntN(6) {
		case 0:
			p.Flags = 1
		case 1:
			p.Value = &metrics.NumberDataPoint_AsInt{AsInt: []int64{0, -5, 1 << 53, 1<<53 + 1, math.MinInt64, math.MaxInt64}[r.IntN(6)]}
		default:
			p.Value = &metrics.NumberDataPoint_AsDouble{AsDouble: r.value()}
		}
		p.Exemplars = make([]*metrics.Exemplar, r.IntN(3))
		for i := range p.Exemplars {
			p.Exemplars[i] = &metrics.Exemplar{}
		}
		numbers = append(numbers, p)
	}
	switch r.IntN(5) {
	case 0:
		m.Data = &metrics.Metric_Gauge{Gauge: &metrics.Gauge{DataPoints: numbers}}
	case 1:
		m.Data = &metrics.Metric_Sum{Sum: &metrics.Sum{DataPoints: numbers, AggregationTemporality: temporality, IsMonotonic: true}}
	case 2:
		m.Data = &metrics.Metric_Histogram{Histogram: &metrics.Histogram{AggregationTemporality: temporality, DataPoints: []*metrics.HistogramDataPoint{{
			TimeUnixNano: at(), Attributes: r.attributes(3), Count: 6, Sum: r.optional(), Min: r.optional(), Max: r.optional(),
			BucketCounts: []uint64{1, 2, 3}, ExplicitBounds: []float64{0, 1},
		}}}}
	case 3:
		m.Data = &metrics.Metric_ExponentialHistogram{ExponentialHistogram: &metrics.ExponentialHistogram{AggregationTemporality: temporality, DataPoints: []*metrics.ExponentialHistogramDataPoint{{
			TimeUnixNano: at(), Attributes: r.attributes(3), Count: 6, Sum: r.optional(), Scale: 3, ZeroCount: 1, Min: r.optional(),
			Positive: &metrics.ExponentialHistogramDataPoint_Buckets{Offset: int32(r.IntN(9) - 4), BucketCounts: []uint64{2, 0, 3}},
		}}}}
	case 4:
		m.Data = &metrics.Metric_Summary{Summary: &metrics.Summary{DataPoints: []*metrics.SummaryDataPoint{{
			TimeUnixNano: at(), Attributes: r.attributes(2), Count: 3, Sum: 2,
			QuantileValues: []*metrics.SummaryDataPoint_ValueAtQuantile{{Quantile: 0.5, Value: r.value()}, {Quantile: 0.99, Value: r.value()}},
		}}}}
	}
	return m
}

func (r random) request() *metrics.MetricsData {
	out, next := &metrics.MetricsData{}, uint64(1_700_000_000_000_000_000)
	at := func() uint64 {
		next += uint64(r.IntN(2)) + 1
		return next
	}
	for range 1 + r.IntN(3) {
		rm := &metrics.ResourceMetrics{Resource: &resource.Resource{Attributes: r.attributes(2)}}
		for _, name := range []string{"service.name", "service.instance.id", "kymogram.run"} {
			if r.IntN(2) == 0 {
				rm.Resource.Attributes = append(rm.Resource.Attributes, &v1.KeyValue{Key: name, Value: &v1.AnyValue{Value: &v1.AnyValue_StringValue{StringValue: fmt.Sprint(name[0:1], r.IntN(2))}}})
			}
		}
		for range 1 + r.IntN(2) {
			sm := &metrics.ScopeMetrics{Scope: &v1.InstrumentationScope{Name: []string{"", "s", "t"}[r.IntN(3)], Version: "1", Attributes: r.attributes(1)}}
			for i := range r.IntN(6) {
				sm.Metrics = append(sm.Metrics, r.metric(fmt.Sprint("m.", i), at))
			}
			rm.ScopeMetrics = append(rm.ScopeMetrics, sm)
		}
		out.ResourceMetrics = append(out.ResourceMetrics, rm)
	}
	return out
}

// decoded is what the decoder makes of a request, but the buckets of histograms.
func decoded(t testing.TB, body []byte) (known, *decoder) {
	t.Helper()
	book, err := newRuleBook(nil)
	if err != nil {
		t.Fatal(err)
	}
	d := newDecoder(book.find("p"), 1, 1<<30)
	if err := d.request(body); err != nil {
		t.Fatal(err)
	}
	points := known{}
	for _, part := range d.batches() {
		for _, g := range part.Batch.Groups {
			for _, c := range g.Columns {
				for row, at := range g.TimeNs {
					switch c.Kind {
					case model.KindFloat:
						points.put(part.Run, c.Series.Metric, c.Series.LabelMap(), uint64(at), shown(c.Floats[row]))
					case model.KindInt:
						points.put(part.Run, c.Series.Metric, c.Series.LabelMap(), uint64(at), fmt.Sprint(c.Ints[row]))
					case model.KindHistogram:
						if err := model.CheckDocument(c.Kind, c.Docs[row]); err != nil {
							t.Errorf("%s: %v", c.Docs[row], err)
						}
					}
				}
			}
		}
	}
	return points, d
}

// Random requests are read as by a program of the official types.
func TestRequestsAreReadAsByASecondReader(t *testing.T) {
	for seed := range uint64(500) {
		data := random{rand.New(rand.NewPCG(seed, 1))}.request()
		body, err := proto.Marshal(data)
		if err != nil {
			t.Fatal(err)
		}
		want, exemplars, empty := second(data)
		got, d := decoded(t, body)
		if diff := cmp.Diff(want, got); diff != "" || d.rejected != 0 || int(d.stats.Exemplars) != exemplars || int(d.stats.Empty) != empty {
			t.Fatalf("seed %d: %d rejected (%v), %d of %d exemplars, %d of %d empty\n%s", seed, d.rejected, d.fault, d.stats.Exemplars, exemplars, d.stats.Empty, empty, diff)
		}
	}
}

// Fields may come in any order, and messages in pieces.
func TestFieldsMayComeInAnyOrder(t *testing.T) {
	data := random{rand.New(rand.NewPCG(7, 7))}.request()
	want, _, _ := second(data)
	var body []byte
	for _, rm := range data.GetResourceMetrics() {
		scopes, err := proto.Marshal(&metrics.ResourceMetrics{ScopeMetrics: rm.GetScopeMetrics()})
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range rm.GetResource().GetAttributes() { // each in a piece of its own, behind the scopes
			piece, err := proto.Marshal(&metrics.ResourceMetrics{Resource: &resource.Resource{Attributes: []*v1.KeyValue{a}}})
			if err != nil {
				t.Fatal(err)
			}
			scopes = append(scopes, piece...)
		}
		body = append(body, wrapped(fResourceMetrics, scopes)...)
	}
	if got, _ := decoded(t, body); !cmp.Equal(want, got) {
		t.Error(cmp.Diff(want, got))
	}
}

// Whatever comes is read as by the second reader, or refused by both.
func FuzzRequest(f *testing.F) {
	for seed := range uint64(8) {
		body, err := proto.Marshal(random{rand.New(rand.NewPCG(seed, 3))}.request())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	book, err := newRuleBook(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		d := newDecoder(book.find("p"), 1, 1<<24)
		err := d.request(body)
		var data metrics.MetricsData
		if whole := proto.Unmarshal(body, &data); whole == nil && err != nil && len(body) < maxMessage {
			t.Fatalf("%v, and the official types read it", err)
		}
		if err != nil {
			return
		}
		for _, part := range d.batches() {
			for i := range part.Batch.Groups {
				g := &part.Batch.Groups[i]
				for k := range g.Columns {
					if g.Columns[k].Len() != g.Rows() {
						t.Fatalf("%d values in %d rows", g.Columns[k].Len(), g.Rows())
					}
				}
			}
		}
		if d.rejected > d.points {
			t.Fatalf("%d of %d data points are rejected", d.rejected, d.points)
		}
	})
}
