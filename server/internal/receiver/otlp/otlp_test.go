package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/testkit/cost"
	"github.com/kymogram/kymogram/server/internal/ingest"
)

const bodyLimit = 1 << 20

// wrapped is a message as the value of a field.
func wrapped(field protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), value)
}

// gauges is a request of data points of one gauge.
func gauges(points ...[]byte) []byte {
	metric := append(wrapped(fName, []byte("m")), wrapped(fGauge, bytes.Join(points, nil))...)
	return wrapped(fResourceMetrics, wrapped(fScopeMetrics, wrapped(fMetrics, metric)))
}

func text1(key, value string) *v1.KeyValue {
	return &v1.KeyValue{Key: key, Value: &v1.AnyValue{Value: &v1.AnyValue_StringValue{StringValue: value}}}
}

func marshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// taker is ingest that stores nothing.
type taker struct {
	parts []ingest.Part
	err   error
}

func (*taker) Allow(context.Context, string, string) error { return nil }

func (w *taker) Append(_ context.Context, _, _ string, parts []ingest.Part) (ack model.Ack, err error) {
	for i := range parts {
		ack.Stored += uint64(parts[i].Batch.Points())
	}
	w.parts = parts
	return ack, w.err
}

func receiver(t testing.TB, in Ingest, most int64) *Receiver {
	t.Helper()
	r, err := New(in, Config{}, Options{MaxBody: most, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func post(r *Receiver, body []byte, encoding string) *httptest.ResponseRecorder {
	q := httptest.NewRequest(http.MethodPost, "/v1/metrics", bytes.NewReader(body))
	q.Header.Set("Content-Type", mediaType)
	q.Header.Set("Content-Encoding", encoding)
	w := httptest.NewRecorder()
	r.write(w, q)
	return w
}

// One data point that cannot be taken costs itself, and the answer counts it.
func TestABadDataPointIsRejectedAlone(t *testing.T) {
	value := &metrics.NumberDataPoint_AsDouble{AsDouble: 1}
	good := &metrics.NumberDataPoint{TimeUnixNano: 1, Value: value}
	for name, c := range map[string]struct {
		metric *metrics.Metric
		why    string
	}{
		"no value":       {gaugeOf(&metrics.NumberDataPoint{TimeUnixNano: 1}), "has no value"},
		"a far time":     {gaugeOf(&metrics.NumberDataPoint{TimeUnixNano: math.MaxUint64, Value: value}), "out of range"},
		"twice":          {gaugeOf(&metrics.NumberDataPoint{Value: value, Attributes: []*v1.KeyValue{text1("k", "a"), text1("k", "b")}}), `the attribute "k" twice`},
		"large":          {gaugeOf(&metrics.NumberDataPoint{Value: value, Attributes: []*v1.KeyValue{text1("k", strings.Repeat("x", maxMessage))}}), "more than 65536 bytes"},
		"too few counts": {&metrics.Metric{Name: "m", Data: &metrics.Metric_Histogram{Histogram: &metrics.Histogram{DataPoints: []*metrics.HistogramDataPoint{{BucketCounts: []uint64{1}, ExplicitBounds: []float64{1}}}}}}, "1 buckets between 1 bounds"},
		"a long name":    {&metrics.Metric{Name: strings.Repeat("x", maxMetric+1), Data: gaugeOf(good).GetData()}, "1025 bytes, at most 1024"},
		"many labels":    {gaugeOf(&metrics.NumberDataPoint{Value: value, Attributes: many(maxLabels + 1)}), "65 attributes"},
		"a long label":   {&metrics.Metric{Name: "h", Data: &metrics.Metric_Histogram{Histogram: &metrics.Histogram{DataPoints: []*metrics.HistogramDataPoint{{Sum: proto.Float64(1), Attributes: []*v1.KeyValue{text1("k", strings.Repeat("x", 2_000))}}}}}}, "2000 bytes"},
	} {
		in := &taker{}
		data := &metrics.MetricsData{ResourceMetrics: []*metrics.ResourceMetrics{{ScopeMetrics: []*metrics.ScopeMetrics{{Metrics: []*metrics.Metric{gaugeOf(good), c.metric}}}}}}
		w := post(receiver(t, in, bodyLimit), marshal(t, data), "")
		rejected, why := partialOf(t, w.Body.Bytes())
		if w.Code != http.StatusOK || rejected != 1 || !strings.Contains(why, c.why) || len(in.parts) != 1 || in.parts[0].Batch.Points() != 1 {
			t.Errorf("%s: %d, %d rejected because %q, stored %+v", name, w.Code, rejected, why, in.parts)
		}
	}
	in := &taker{}
	data := &metrics.MetricsData{ResourceMetrics: []*metrics.ResourceMetrics{
		{Resource: &resource.Resource{Attributes: []*v1.KeyValue{text1("kymogram.run", "a\x01")}}, ScopeMetrics: []*metrics.ScopeMetrics{{Metrics: []*metrics.Metric{gaugeOf(good, good)}}}},
	}}
	if rejected, why := partialOf(t, post(receiver(t, in, bodyLimit), marshal(t, data), "").Body.Bytes()); rejected != 2 || !strings.Contains(why, "run name") {
		t.Errorf("a run that cannot be: %d rejected because %q", rejected, why)
	}
}

// Python's SDK does not show why points were refused, so the log has it, and not at every export.
func TestTheLogSaysWhyPointsWereRefused(t *testing.T) {
	var logged bytes.Buffer
	now := time.Unix(1_700_000_000, 0)
	r, err := New(&taker{}, Config{}, Options{MaxBody: bodyLimit, Now: func() time.Time { return now }, Log: slog.New(slog.NewTextHandler(&logged, nil))})
	if err != nil {
		t.Fatal(err)
	}
	good, bad := gaugeOf(&metrics.NumberDataPoint{TimeUnixNano: 1, Value: &metrics.NumberDataPoint_AsDouble{AsDouble: 1}}), gaugeOf(&metrics.NumberDataPoint{TimeUnixNano: 1})
	for _, step := range []struct {
		metric *metrics.Metric
		wait   time.Duration
		lines  int
	}{{good, 0, 0}, {bad, 0, 1}, {bad, time.Second, 1}, {bad, time.Minute, 2}} {
		now = now.Add(step.wait)
		data := &metrics.MetricsData{ResourceMetrics: []*metrics.ResourceMetrics{{ScopeMetrics: []*metrics.ScopeMetrics{{Metrics: []*metrics.Metric{step.metric}}}}}}
		if w := post(r, marshal(t, data), ""); w.Code != http.StatusOK || strings.Count(logged.String(), "has no value") != step.lines {
			t.Errorf("%d, want %d lines:\n%s", w.Code, step.lines, &logged)
		}
	}
}

// A counter may have an integer beyond float64 and a fraction at the same time: both are of
// one series, which may not be twice in a row group.
func TestASeriesIsOnceInARowGroup(t *testing.T) {
	in := &taker{}
	data := gaugeOf(
		&metrics.NumberDataPoint{TimeUnixNano: 1, Value: &metrics.NumberDataPoint_AsInt{AsInt: 1<<60 + 1}},
		&metrics.NumberDataPoint{TimeUnixNano: 1, Value: &metrics.NumberDataPoint_AsDouble{AsDouble: 1.5}},
	)
	body := marshal(t, &metrics.MetricsData{ResourceMetrics: []*metrics.ResourceMetrics{{ScopeMetrics: []*metrics.ScopeMetrics{{Metrics: []*metrics.Metric{data}}}}}})
	if w := post(receiver(t, in, bodyLimit), body, ""); w.Code != http.StatusOK {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	groups := in.parts[0].Batch.Groups
	if len(groups) != 2 || groups[0].Columns[0].Ints[0] != 1<<60+1 || groups[1].Columns[0].Floats[0] != 1.5 {
		t.Errorf("stored %+v, want two row groups", groups)
	}
}

// many is so many attributes.
func many(n int) (out []*v1.KeyValue) {
	for i := range n {
		out = append(out, text1(fmt.Sprint("k", i), "v"))
	}
	return out
}

// A short request is not long at work: what is read again for each data point is bounded, and
// so are the data points.
func TestTimeOfARequest(t *testing.T) {
	value := binary.LittleEndian.AppendUint64([]byte{4<<3 | 1}, 1)
	points := bytes.Repeat(wrapped(fDataPoints, value), 200_000)
	scoped := func(labels int, points []byte) []byte {
		scope := wrapped(1, marshal(t, &v1.InstrumentationScope{Attributes: many(labels)}))
		return wrapped(fResourceMetrics, wrapped(fScopeMetrics, append(scope, wrapped(fMetrics, append(wrapped(fName, []byte("m")), wrapped(fGauge, points)...))...)))
	}
	for name, c := range map[string]struct {
		body     []byte
		code     int
		rejected uint64
	}{
		"points with a full scope":    {scoped(maxLabels, points), 413, 0},
		"points with a larger scope":  {scoped(maxLabels+1, points), 200, 200_000},
		"points without a value":      {gauges(bytes.Repeat([]byte{fDataPoints<<3 | 2, 0}, 5_000_000)), 413, 0},
		"points of a long name":       {wrapped(fResourceMetrics, wrapped(fScopeMetrics, wrapped(fMetrics, append(wrapped(fName, bytes.Repeat([]byte("x"), 4<<20)), wrapped(fGauge, points)...)))), 200, 200_000},
		"points with an honest scope": {scoped(4, points), 200, 0},
	} {
		w := post(receiver(t, &taker{}, 16<<20), c.body, "")
		if w.Code != c.code {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		} else if w.Code == http.StatusOK {
			if rejected, why := partialOf(t, w.Body.Bytes()); rejected != c.rejected {
				t.Errorf("%s: %d rejected, want %d: %s", name, rejected, c.rejected, why)
			}
		}
	}
}

func gaugeOf(points ...*metrics.NumberDataPoint) *metrics.Metric {
	return &metrics.Metric{Name: "m", Data: &metrics.Metric_Gauge{Gauge: &metrics.Gauge{DataPoints: points}}}
}

// partialOf reads an ExportMetricsServiceResponse by its definition.
func partialOf(t testing.TB, answer []byte) (rejected uint64, why string) {
	t.Helper()
	if len(answer) == 0 {
		return 0, ""
	}
	field, wire, n := protowire.ConsumeTag(answer)
	inner, m := protowire.ConsumeBytes(answer[max(n, 0):])
	if field != 1 || wire != protowire.BytesType || n+m != len(answer) {
		t.Fatalf("the answer is %x", answer)
	}
	for len(inner) > 0 {
		field, wire, n := protowire.ConsumeTag(inner)
		switch {
		case field == 1 && wire == protowire.VarintType:
			rejected, m = protowire.ConsumeVarint(inner[n:])
		case field == 2 && wire == protowire.BytesType:
			why, m = protowire.ConsumeString(inner[n:])
		default:
			t.Fatalf("the answer has the field %d", field)
		}
		inner = inner[n+m:]
	}
	return rejected, why
}

// What a request says of its body is checked, and every refusal has the protocol's form.
func TestRequestsAreChecked(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write(gauges())
	_ = z.Close()
	var bomb bytes.Buffer
	z = gzip.NewWriter(&bomb)
	_, _ = z.Write(make([]byte, 3*bodyLimit))
	_ = z.Close()
	for name, c := range map[string]struct {
		body     []byte
		encoding string
		code     int
		text     string
	}{
		"empty":            {nil, "", 200, ""},
		"gzip":             {packed.Bytes(), "gzip", 200, ""},
		"a bomb":           {bomb.Bytes(), "gzip", 413, "larger than 2 MiB"},
		"cut gzip":         {packed.Bytes()[:12], "gzip", 400, "gzip"},
		"no gzip":          {[]byte("hello"), "gzip", 400, "gzip"},
		"another encoding": {nil, "zstd", 415, "zstd"},
		"no protobuf":      {[]byte("hello"), "", 400, "malformed"},
		"too large":        {make([]byte, bodyLimit+1), "", 413, "larger than 1 MiB"},
	} {
		w := post(receiver(t, &taker{}, bodyLimit), c.body, c.encoding)
		if w.Code != c.code || w.Header().Get("Content-Type") != mediaType || !strings.Contains(w.Body.String(), c.text) {
			t.Errorf("%s: %d %q, want %d %s", name, w.Code, w.Body, c.code, c.text)
		}
	}
	q := httptest.NewRequest(http.MethodPost, "/v1/metrics", strings.NewReader("{}"))
	q.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	if receiver(t, &taker{}, bodyLimit).write(w, q); w.Code != http.StatusUnsupportedMediaType || !strings.Contains(w.Body.String(), "http/protobuf") {
		t.Errorf("JSON: %d %q", w.Code, w.Body)
	}
}

// Whatever is to be sent again has a status after which clients do, and says when.
func TestWhatMayComeAgainSaysWhen(t *testing.T) {
	for _, code := range []model.Code{model.CodeDiskFull, model.CodeBusy, model.CodeUnavailable, model.CodeTimeout, model.CodeSlow, model.CodeSuperseded, model.CodeInternal} {
		in := &taker{err: model.Errorf(code, "later")}
		if code == model.CodeInternal {
			in.err = errors.New("a secret of ours")
		}
		r := receiver(t, in, bodyLimit)
		r.options.Log = slog.New(slog.DiscardHandler)
		w := post(r, gauges(), "")
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%s: %d %v %s", code, w.Code, w.Header(), w.Body)
		}
	}
}

func TestRunsFollowTheRuleOfTheProject(t *testing.T) {
	book, err := newRuleBook([]string{"*={service.name}|other", "train={host.name}-{rank}|{service.name}|none"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		project, run string
		said         []*v1.KeyValue
	}{
		{"train", "h-3", []*v1.KeyValue{text1("host.name", "h"), {Key: "rank", Value: &v1.AnyValue{Value: &v1.AnyValue_IntValue{IntValue: 3}}}}},
		{"train", "s", []*v1.KeyValue{text1("host.name", "h"), text1("service.name", "s")}},
		{"train", "none", nil},
		{"x", "s", []*v1.KeyValue{text1("service.instance.id", "1"), text1("service.name", "s")}},
		{"x", "other", nil},
	} {
		d := newDecoder(book.find(c.project), 1, 1<<20)
		if p, err := d.resource(&resource.Resource{Attributes: c.said}); err != nil || p.run != c.run {
			t.Errorf("%s %v: %q %v, want %q", c.project, c.said, p.run, err, c.run)
		}
	}
	for _, bad := range []string{"x", "=a", "x={a}", "x=", "x={}|a", "x=a}|b"} {
		if _, err := newRuleBook([]string{bad}); err == nil {
			t.Errorf("the rule %q is taken", bad)
		}
	}
}

// A restart is another attempt of a run, and no other series.
func TestARestartIsAnAttempt(t *testing.T) {
	data := &metrics.MetricsData{}
	for pid := range 30 {
		data.ResourceMetrics = append(data.ResourceMetrics, &metrics.ResourceMetrics{
			Resource:     &resource.Resource{Attributes: []*v1.KeyValue{text1("kymogram.run", "r"), text1("process.pid", fmt.Sprint(pid))}},
			ScopeMetrics: []*metrics.ScopeMetrics{{Metrics: []*metrics.Metric{gaugeOf(&metrics.NumberDataPoint{TimeUnixNano: uint64(pid + 1), StartTimeUnixNano: uint64(pid + 1), Value: &metrics.NumberDataPoint_AsInt{AsInt: 1}})}}},
		})
	}
	in := &taker{}
	post(receiver(t, in, bodyLimit), marshal(t, data), "")
	series, processes := map[string]bool{}, map[string]bool{}
	for _, p := range in.parts {
		processes[p.Process] = true
		series[p.Run+p.Batch.Groups[0].Columns[0].Series.String()] = true
	}
	if len(series) != 1 || len(processes) != 30 {
		t.Errorf("%d series, %d attempts", len(series), len(processes))
	}
}

func TestBuckets(t *testing.T) {
	half, nine := 0.5, 9.0
	edge := math.MaxFloat64
	for name, c := range map[string]struct {
		bins   []model.Bin
		edges  []float64
		counts []float64
	}{
		"inner alone":     {explicitBins([]uint64{0, 2, 0, 3, 0}, []float64{1, 2, 3, 4}, nil, nil), []float64{1, 2, 3, 4}, []float64{2, 0, 3}},
		"outer, bounded":  {explicitBins([]uint64{1, 2, 3}, []float64{1, 2}, &half, &nine), []float64{0.5, 1, 2, 9}, []float64{1, 2, 3}},
		"outer, open":     {explicitBins([]uint64{1, 2, 3}, []float64{1, 2}, nil, nil), []float64{-edge, 1, 2, edge}, []float64{1, 2, 3}},
		"of another time": {explicitBins([]uint64{1, 2, 3}, []float64{1, 2}, &nine, &half), []float64{-edge, 1, 2, edge}, []float64{1, 2, 3}},
		"scale 0": {exponentialBins(&metrics.ExponentialHistogramDataPoint{
			Positive: &metrics.ExponentialHistogramDataPoint_Buckets{Offset: -1, BucketCounts: []uint64{1, 0, 0, 2}},
			Negative: &metrics.ExponentialHistogramDataPoint_Buckets{Offset: 2, BucketCounts: []uint64{4}}, ZeroCount: 5, ZeroThreshold: 0.25,
		}), []float64{-8, -4, -0.25, 0.25, 0.5, 1, 4, 8}, []float64{4, 0, 5, 0, 1, 0, 2}},
		"scale -1": {exponentialBins(&metrics.ExponentialHistogramDataPoint{Scale: -1, Positive: &metrics.ExponentialHistogramDataPoint_Buckets{Offset: -1, BucketCounts: []uint64{1, 2}}}), []float64{0.25, 1, 4}, []float64{1, 2}},
	} {
		h, err := model.NewHistogram(c.bins)
		if err != nil || !cmp.Equal(h.BinEdges, c.edges) || !cmp.Equal(h.Counts, c.counts) {
			t.Errorf("%s: %v %+v, want %v %v", name, err, h, c.edges, c.counts)
		}
	}
}

// More buckets than a histogram holds become wider ones: no value leaves the bounds of its
// bucket, and none is lost.
func TestManyBucketsBecomeWider(t *testing.T) {
	fine := &metrics.ExponentialHistogramDataPoint{Scale: 8, Positive: &metrics.ExponentialHistogramDataPoint_Buckets{Offset: -700}}
	for i := range 3_000 {
		fine.Positive.BucketCounts = append(fine.Positive.BucketCounts, uint64(i%7))
	}
	h, err := model.NewHistogram(exponentialBins(fine))
	if err != nil {
		t.Fatal(err)
	}
	want := make([]float64, len(h.Counts))
	bin := 0
	for i, n := range fine.Positive.BucketCounts {
		middle := math.Exp2((float64(i-700) + 0.5) / 256)
		for middle > h.BinEdges[bin+1] {
			bin++
		}
		want[bin] += float64(n)
	}
	if diff := cmp.Diff(want, h.Counts); diff != "" || len(h.Counts) < 300 {
		t.Errorf("%d bins: %s", len(h.Counts), diff)
	}
}

// hostile are requests of about a size that ask for as much memory as they can.
func hostile(size int) map[string][]byte {
	repeated := func(part []byte) []byte { return bytes.Repeat(part, size/len(part)) }
	value := binary.LittleEndian.AppendUint64([]byte{4<<3 | 1}, 1)
	var distinct []byte
	for i := 0; len(distinct) < size; i++ {
		distinct = append(distinct, wrapped(fDataPoints, append(wrapped(7, wrapped(1, fmt.Append(nil, "k", i))), value...))...)
	}
	deep := []byte{}
	for range 8_000 {
		deep = wrapped(5, wrapped(1, deep))
	}
	attribute := wrapped(7, append(wrapped(1, []byte("k")), wrapped(2, deep)...))
	named := wrapped(fMetrics, append(wrapped(fName, []byte("m")), wrapped(fGauge, wrapped(fDataPoints, value))...))
	var runs []byte
	for i := 0; len(runs) < size; i++ {
		of := wrapped(fResource, wrapped(1, append(wrapped(1, []byte("kymogram.run")), wrapped(2, wrapped(1, fmt.Append(nil, i)))...)))
		runs = append(runs, wrapped(fResourceMetrics, append(of, wrapped(fScopeMetrics, named)...))...)
	}
	histogram := func(point []byte) []byte {
		return wrapped(fResourceMetrics, wrapped(fScopeMetrics, wrapped(fMetrics, wrapped(fHistogram, repeated(wrapped(fDataPoints, point))))))
	}
	return map[string][]byte{
		"empty resources":       repeated([]byte{fResourceMetrics<<3 | 2, 0}),
		"runs":                  runs,
		"empty scopes":          wrapped(fResourceMetrics, repeated([]byte{fScopeMetrics<<3 | 2, 0})),
		"empty metrics":         wrapped(fResourceMetrics, wrapped(fScopeMetrics, repeated([]byte{fMetrics<<3 | 2, 0}))),
		"a resource":            wrapped(fResourceMetrics, wrapped(fResource, repeated([]byte{1<<3 | 2, 0}))),
		"resources":             repeated(wrapped(fResourceMetrics, wrapped(fResource, bytes.Repeat([]byte{1<<3 | 2, 0}, 30_000)))),
		"empty points":          gauges(repeated([]byte{fDataPoints<<3 | 2, 0})),
		"points":                gauges(repeated(wrapped(fDataPoints, value))),
		"series":                gauges(distinct),
		"points of attributes":  gauges(repeated(wrapped(fDataPoints, append(bytes.Repeat([]byte{7<<3 | 2, 0}, 60), value...)))),
		"empty attributes":      gauges(repeated(wrapped(fDataPoints, bytes.Repeat([]byte{7<<3 | 2, 0}, 30_000)))),
		"exemplars":             gauges(repeated(wrapped(fDataPoints, bytes.Repeat([]byte{5<<3 | 2, 0}, 30_000)))),
		"nested attributes":     gauges(repeated(wrapped(fDataPoints, append(bytes.Clone(attribute), value...)))),
		"histograms":            histogram(append(wrapped(6, make([]byte, 8*400)), wrapped(7, bounds(399))...)),
		"exponential":           wrapped(fResourceMetrics, wrapped(fScopeMetrics, wrapped(fMetrics, wrapped(fExponential, repeated(wrapped(fDataPoints, append([]byte{4<<3 | 1, 1, 0, 0, 0, 0, 0, 0, 0, 6 << 3, 0}, wrapped(8, wrapped(2, bytes.Repeat([]byte{1}, 30_000)))...))))))),
		"summaries":             wrapped(fResourceMetrics, wrapped(fScopeMetrics, wrapped(fMetrics, wrapped(fSummary, repeated(wrapped(fDataPoints, bytes.Repeat([]byte{6<<3 | 2, 0}, 1_000))))))),
		"a metric's name":       wrapped(fResourceMetrics, wrapped(fScopeMetrics, wrapped(fMetrics, append(wrapped(fName, make([]byte, size/2)), wrapped(fGauge, repeated(wrapped(fDataPoints, value))[:size/2/11*11])...)))),
		"points of a long name": wrapped(fResourceMetrics, wrapped(fScopeMetrics, wrapped(fMetrics, append(wrapped(fName, make([]byte, size/2)), wrapped(fGauge, distinct[:0])...)))),
	}
}

func bounds(n int) (out []byte) {
	for i := range n {
		out = binary.LittleEndian.AppendUint64(out, math.Float64bits(float64(i)))
	}
	return out
}

// A request takes no more than what it is counted for, whatever it repeats.
func TestMemoryOfARequest(t *testing.T) {
	if cost.Raced {
		t.Skip("memory is not measured under the race detector")
	}
	for _, size := range []int{4 << 10, bodyLimit / 4, bodyLimit - 1<<10} {
		for name, body := range hostile(size) {
			if len(body) > bodyLimit {
				continue // one part of it is larger than the size
			}
			r := receiver(t, &taker{}, 16<<20)
			var code int
			got := cost.Allocated(func() { code = post(r, body, "").Code })
			if counted := r.bodies.cost(len(body)); int64(got) > counted || code >= http.StatusInternalServerError {
				t.Errorf("%s, %d bytes: %d, %d KiB are allocated, %d KiB are counted", name, len(body), code, got>>10, counted>>10)
			}
		}
	}
}

// What a collector sends with its default settings, 8,192 points at once, is never too much.
func TestAnHonestRequestIsNotTooLarge(t *testing.T) {
	var points []*metrics.NumberDataPoint
	for i := range 8_192 {
		p := &metrics.NumberDataPoint{TimeUnixNano: uint64(i + 1), Value: &metrics.NumberDataPoint_AsDouble{AsDouble: 1}}
		for k := range 14 {
			p.Attributes = append(p.Attributes, text1(fmt.Sprint("label_", k), fmt.Sprint("value-of-some-length-", k, "-", i)))
		}
		points = append(points, p)
	}
	body := marshal(t, &metrics.MetricsData{ResourceMetrics: []*metrics.ResourceMetrics{{ScopeMetrics: []*metrics.ScopeMetrics{{Metrics: []*metrics.Metric{gaugeOf(points...)}}}}}})
	in := &taker{}
	if w := post(receiver(t, in, 16<<20), body, ""); w.Code != http.StatusOK || len(in.parts) != 1 || in.parts[0].Batch.Points() != 8_192 {
		t.Errorf("%d bytes: %d %s", len(body), w.Code, w.Body)
	}
}
