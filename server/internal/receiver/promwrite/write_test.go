package promwrite

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/testkit/cost"
	"github.com/kymogram/kymogram/server/internal/ingest"
)

// message builders, with protobuf's own primitives.
func field(b []byte, n protowire.Number, content []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), content)
}

func oneLabel(name, value string) []byte {
	return field(field(nil, 1, []byte(name)), 2, []byte(value))
}

func oneSample(v float64, ms int64) []byte {
	b := protowire.AppendFixed64(protowire.AppendTag(nil, 1, protowire.Fixed64Type), math.Float64bits(v))
	return protowire.AppendVarint(protowire.AppendTag(b, 2, protowire.VarintType), uint64(ms))
}

// series1 is a TimeSeries of name=value pairs and parts behind them.
func series1(labels []string, parts ...[]byte) (b []byte) {
	for i := 0; i < len(labels); i += 2 {
		b = field(b, fLabels1, oneLabel(labels[i], labels[i+1]))
	}
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

func samples(values ...float64) (b []byte) {
	for i, v := range values {
		b = field(b, fSamples, oneSample(v, int64(1_000+i)))
	}
	return b
}

func request1(series ...[]byte) (b []byte) {
	for _, s := range series {
		b = field(b, f1Series, s)
	}
	return b
}

func request2(symbols []string, series ...[]byte) (b []byte) {
	for _, s := range symbols {
		b = field(b, f2Symbols, []byte(s))
	}
	for _, s := range series {
		b = field(b, f2Series, s)
	}
	return b
}

func packed(refs ...uint64) (b []byte) {
	for _, r := range refs {
		b = binary.AppendUvarint(b, r)
	}
	return field(nil, fLabels2, b)
}

func corpus1() [][]byte {
	usual := []string{"__name__", "up", "instance", "a:1", "job", "j"}
	return [][]byte{
		{},
		request1(), request1(series1(usual, samples(1))), request1(series1(usual, samples(1)), series1(usual, samples(2)), series1([]string{"__name__", "x", "run", "r"}, samples(3, 4, 5))),
		request1(series1(usual, samples(math.Float64frombits(staleBits)))), request1(series1(nil, samples(1))), request1(series1([]string{"b", "2", "a", "1", "b", "3", "c", ""}, samples(1))),
		request1(append(series1(usual, samples(1)), field(nil, fLabels1, oneLabel("z", "1"))...), series1(usual, samples(2)), append(series1(usual, samples(1)), field(nil, fLabels1, oneLabel("z", "1"))...)),
		request1(append(samples(7), series1(usual)...)), request1(series1(usual, field(nil, fExemplars1, oneSample(1, 2)), samples(1))),
		append(field(nil, f1Metadata, field(nil, 2, []byte("up"))), request1(series1(usual, samples(1)))...), request1(series1(usual, field(nil, fSamples, nil))),
		request1(series1(usual, field(nil, fSamples, oneSample(1, math.MaxInt64)))), request1(series1(usual, field(nil, fSamples, append(oneSample(1, 5), oneSample(2, 6)...)))),
		request1(series1(usual, field(nil, fHistogram1, nativeExample()))),
		{0x0a},
		{0x0a, 0x05, 0x01},
		{0x0b},
		{0x00},
		{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
		{0x0d, 1, 2, 3, 4},
		{0x09, 1, 2, 3, 4, 5, 6, 7, 8},
		request1([]byte{tagLabel, 200}), request1(series1(usual, []byte{tagSample, 3, 0x09, 1, 2})),
	}
}

func corpus2() [][]byte {
	symbols := []string{"", "__name__", "up", "job", "j", "run", "r"}
	return [][]byte{
		{},
		request2(symbols, append(packed(1, 2, 3, 4), samples(1)...), append(packed(1, 2, 3, 4), samples(2)...), append(packed(1, 2, 5, 6), samples(3, 4)...)),
		request2(symbols, append(packed(1, 2, 3), samples(1)...)), request2(symbols, append(packed(1, 9), samples(1)...)), request2(nil, packed()),
		append(request2(nil, append(packed(1, 2), samples(1)...)), request2(symbols)...), request2(symbols, append(samples(1), append(packed(1, 2), packed(3, 4)...)...)),
		request2(symbols, append(protowire.AppendVarint(protowire.AppendTag(nil, fLabels2, protowire.VarintType), 1), append(protowire.AppendVarint(protowire.AppendTag(nil, fLabels2, protowire.VarintType), 1<<40|2), samples(1)...)...)),
		request2(symbols, append(packed(1, 2), field(field(nil, fExemplars2, oneSample(1, 2)), fMetadata2, []byte{8, 1})...)), request2(symbols, append(packed(1, 2), field(nil, fHistogram2, nativeExample())...)),
	}
}

func nativeExample() []byte {
	b := protowire.AppendVarint(protowire.AppendTag(nil, hCountInt, protowire.VarintType), 6)
	b = protowire.AppendFixed64(protowire.AppendTag(b, hSum, protowire.Fixed64Type), math.Float64bits(12.5))
	b = protowire.AppendFixed64(protowire.AppendTag(b, hZeroThreshold, protowire.Fixed64Type), math.Float64bits(0.125))
	b = protowire.AppendVarint(protowire.AppendTag(b, hZeroCountInt, protowire.VarintType), 1)
	span := func(offset int64, n uint64) []byte {
		s := protowire.AppendVarint(protowire.AppendTag(nil, fSpanOffset, protowire.VarintType), protowire.EncodeZigZag(offset))
		return protowire.AppendVarint(protowire.AppendTag(s, fSpanLength, protowire.VarintType), n)
	}
	deltas := func(vs ...int64) (d []byte) {
		for _, v := range vs {
			d = protowire.AppendVarint(d, protowire.EncodeZigZag(v))
		}
		return d
	}
	b = field(b, hPositiveSpans, span(1, 2))
	b = field(b, hPositiveSpans, span(1, 1))
	b = field(b, hPositiveDeltas, deltas(1, 1, -1))
	b = field(b, hNegativeSpans, span(0, 1))
	b = field(b, hNegativeDeltas, deltas(1))
	return protowire.AppendVarint(protowire.AppendTag(b, hTimestamp, protowire.VarintType), 77)
}

// flat lists the samples of the parts, without what comes from histograms.
func flat(parts []ingest.Part) (out []known) {
	for _, part := range parts {
		for _, g := range part.Batch.Groups {
			for _, c := range g.Columns {
				if c.Kind != model.KindFloat {
					continue
				}
				var labels []string
				for _, l := range c.Series.Labels {
					labels = append(labels, fmt.Sprintf("%q=%q", l.Name, l.Value))
				}
				slices.Sort(labels)
				for row, v := range c.Floats {
					out = append(out, known{part.Run, fmt.Sprintf("%q%v", c.Series.Metric, labels), g.TimeNs[row], math.Float64bits(v)})
				}
			}
		}
	}
	return out
}

// agree reads a request in both ways.
func agree(t interface {
	Errorf(format string, args ...any)
	Helper()
}, version int, body []byte,
) {
	t.Helper()
	agreeWith(t, newDecoder(1<<30), version, body)
	if version == 1 { // and with one that knows what is in it, and more
		knowing := newDecoder(1 << 30)
		for _, body := range [][]byte{body, slices.Concat(corpus1()...), body} {
			_ = knowing.write1(slices.Clone(body))
			knowing.end()
		}
		agreeWith(t, knowing, version, body)
	}
}

func agreeWith(t interface {
	Errorf(format string, args ...any)
	Helper()
}, d *decoder, version int, body []byte,
) {
	t.Helper()
	want, histograms, exemplars, metadata, valid := second(messages, version, body)
	decode, sent := d.write1, slices.Clone(body)
	if version == 2 {
		decode = d.write2
	}
	err := decode(sent)
	clear(sent) // another request lies there next
	if err != nil {
		// Histograms have rules of their own; groups, which these messages never
		// had, are refused.
		if valid && histograms == 0 && !errors.Is(err, errWire) {
			t.Errorf("%x: %v, but Google's decoder takes it", body, err)
		}
		return
	}
	if !valid {
		if d.stats.Exemplars+d.stats.Metadata > 0 { // into which nobody looks
			return
		}
		t.Errorf("%x was taken, but Google's decoder refuses it", body)
		return
	}
	if d.stats.Histograms != histograms || d.stats.Exemplars != exemplars || d.stats.Metadata != metadata || d.stats.Samples != len(want) {
		t.Errorf("%x: %+v, want %d samples, %d histograms, %d exemplars, %d metadata", body, d.stats, len(want), histograms, exemplars, metadata)
	}
	if histograms > 0 {
		return
	}
	want = slices.DeleteFunc(want, func(k known) bool { return model.CheckRunName(k.Run) != nil })
	got := flat(d.parts())
	sort := cmpopts.SortSlices(func(a, b known) bool { return fmt.Sprint(a) < fmt.Sprint(b) })
	if diff := cmp.Diff(want, got, sort, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%x (-Google +decoder):\n%s", body, diff)
	}
}

var messages = descriptors()

func TestTheDecodersAgreeWithGoogles(t *testing.T) {
	for _, body := range corpus1() {
		agree(t, 1, body)
	}
	for _, body := range corpus2() {
		agree(t, 2, body)
	}
}

// bounds hold for any request: a series of ten bytes takes some thousand bytes of memory.
var bounds = cost.Bounds{Bytes: 64 << 10, PerByte: 300, TimePerByte: 3 * time.Microsecond}

func FuzzWrite1(f *testing.F) {
	for _, body := range corpus1() {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		agree(t, 1, body)
		bounds.Check(t, body, func(body []byte) { _ = newDecoder(1 << 30).write1(body) })
	})
}

func FuzzWrite2(f *testing.F) {
	for _, body := range corpus2() {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		agree(t, 2, body)
		bounds.Check(t, body, func(body []byte) { _ = newDecoder(1 << 30).write2(body) })
	})
}

// Whatever order and shape a scrape has, every sample comes out once.
func TestAnyMixOfSeriesComesOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var series [][]byte
		for range rapid.IntRange(0, 40).Draw(t, "n") {
			name := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "name")
			labels := []string{"__name__", name, "job", rapid.SampledFrom([]string{"j", "k", ""}).Draw(t, "job")}
			var body []byte
			for range rapid.IntRange(1, 3).Draw(t, "samples") {
				body = field(body, fSamples, oneSample(rapid.Float64().Draw(t, "value"), rapid.Int64Range(-5, 5).Draw(t, "ms")))
			}
			series = append(series, series1(labels, body))
		}
		agree(t, 1, request1(series...))
	})
}

func TestSeriesOfOneScrapeShareTheirTimes(t *testing.T) {
	d := newDecoder(1 << 30)
	var series [][]byte
	for row := range 3 {
		for _, name := range []string{"a", "b", "c"} {
			series = append(series, series1([]string{"__name__", name, "run", "r"}, field(nil, fSamples, oneSample(1, int64(row)))))
		}
	}
	if err := d.write1(request1(series...)); err != nil {
		t.Fatal(err)
	}
	parts := d.parts()
	if len(parts) != 1 || len(parts[0].Batch.Groups) != 1 || len(parts[0].Batch.Groups[0].Columns) != 3 || parts[0].Batch.Groups[0].Rows() != 3 {
		t.Errorf("%+v", parts)
	}
}

func TestANativeHistogram(t *testing.T) {
	d := newDecoder(1 << 30)
	if err := d.write1(request1(series1([]string{"__name__", "h", "run", "r"}, field(nil, fHistogram1, nativeExample())))); err != nil {
		t.Fatal(err)
	}
	// Schema 0: bounds are powers of 2. Spans: buckets 1, 2 and, behind a gap of
	// one, 4; counts 1, 2, 1. Below zero: bucket 0, from -1 to -1/2, count 1.
	want := model.Histogram{BinEdges: []float64{-1, -0.5, -0.125, 0.125, 1, 2, 4, 8, 16}, Counts: []float64{1, 0, 1, 0, 1, 2, 0, 1}}
	groups := d.parts()[0].Batch.Groups
	found := false
	for _, g := range groups {
		for _, c := range g.Columns {
			switch c.Series.Metric {
			case "h":
				var got model.Histogram
				if err := json.Unmarshal(c.Docs[0], &got); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
				found = g.TimeNs[0] == 77_000_000
			case "h_count":
				if c.Floats[0] != 6 {
					t.Errorf("count %v", c.Floats)
				}
			case "h_sum":
				if c.Floats[0] != 12.5 {
					t.Errorf("sum %v", c.Floats)
				}
			}
		}
	}
	if !found || len(groups) != 2 {
		t.Errorf("%+v", groups)
	}
}

func TestAHistogramThatFitsNowhereIsCounted(t *testing.T) {
	strange := protowire.AppendVarint(protowire.AppendTag(nativeExample(), hSchema, protowire.VarintType), protowire.EncodeZigZag(99))
	d := newDecoder(1 << 30)
	if err := d.write1(request1(series1([]string{"__name__", "h", "run", "r"}, field(nil, fHistogram1, strange)))); err != nil {
		t.Fatal(err)
	}
	if d.stats.Dropped != 1 || d.stats.Histograms != 1 || len(d.parts()[0].Batch.Groups) != 1 {
		t.Errorf("%+v", d.stats)
	}
}

func TestARunThatCannotBeIsRefusedAlone(t *testing.T) {
	d := newDecoder(1 << 30)
	err := d.write1(request1(series1([]string{"__name__", "a", "run", "x\x01"}, samples(1, 2)), series1([]string{"__name__", "a", "run", "y"}, samples(1))))
	if err != nil {
		t.Fatal(err)
	}
	if parts := d.parts(); len(parts) != 1 || d.stats.Refused != 2 || d.fault == nil {
		t.Errorf("%+v %+v", parts, d.stats)
	}
}

// What a decoder has learnt stays while it is of use, and goes when nobody sends the names
// again.
func TestNamesThatNobodySendsAgainAreForgotten(t *testing.T) {
	request := func(d *decoder, run int) {
		for i := range 500 {
			c, err := d.column([]label{{[]byte("__name__"), fmt.Appendf(nil, "metric_%d", i)}, {[]byte("run"), fmt.Appendf(nil, "r%d", run)}})
			if err == nil {
				err = d.add(c, 1, 1)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		d.end()
	}
	same, other := newDecoder(1<<30), newDecoder(1<<30)
	for i := range 100 {
		request(same, i%10)
		request(other, i)
	}
	if same.learnt < fewLearnt {
		t.Errorf("the names of ten runs that come again and again: %d bytes are known", same.learnt)
	}
	if most := 2*fewLearnt + mostVain*(same.learnt/10); other.learnt > most {
		t.Errorf("the names of runs that come once: %d bytes are known, at most %d", other.learnt, most)
	}
}
