package storetest

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
)

// extreme is one row of values at the ends of what they can be.
type extreme struct {
	step, time, whole int64
	float             float64
	text              string
}

// extremes are integers that float64 cannot hold, times to the nanosecond, text
// with every byte, and small values beside 1e300: 8,192 of each, so that summaries
// are stored.
func extremes() []extreme {
	whole := []int64{math.MinInt64, math.MinInt64 + 1, -1<<53 - 1, -1, 0, 1, 1<<53 + 1, math.MaxInt64 - 1, math.MaxInt64}
	texts := []string{"", "\x00", "naïve \u2028 text\r\n", strings.Repeat("0123456789abcdef", 4096)}
	out := make([]extreme, 8192)
	for i := range out {
		e := &out[i]
		e.step = int64(i) * 3
		e.time = math.MaxInt64 - int64(i)*1_000_000_007 // falling, and prime to every unit
		e.whole = whole[i%len(whole)] ^ int64(i/len(whole))
		e.float = 1e-7 * float64(i%1000)
		if i%4096 == 99 {
			e.float = 1e300
		}
		if i < 64 {
			e.text = texts[i%len(texts)]
		}
	}
	out[0].step, out[1].step = math.MinInt64, math.MaxInt64
	return out
}

// testExtremes writes them and reads them back to the bit at every stage.
func testExtremes(t *testing.T, open func(t testing.TB) *Harness) {
	ctx, h := t.Context(), open(t)
	defer func() { _ = h.Engine.Close() }()
	run, w := model.RunID{4}, model.WriterID{4}
	if err := h.Engine.PutAttempt(ctx, run, model.Attempt{Number: 1}); err != nil {
		t.Fatal(err)
	}
	rows := extremes()
	g := model.RowGroup{Axes: []model.AxisColumn{{Axis: model.AxisStep}}, Columns: []model.Column{
		{Series: model.NewSeriesKey("x", "", nil), Kind: model.KindFloat},
		{Series: model.NewSeriesKey("n", "", nil), Kind: model.KindInt},
		{Series: model.NewSeriesKey("text", "", nil), Kind: model.KindText},
	}}
	for i, r := range rows {
		g.Axes[0].Values, g.TimeNs, g.Seq = append(g.Axes[0].Values, r.step), append(g.TimeNs, r.time), append(g.Seq, uint64(i+1))
		g.Columns[0].Floats, g.Columns[1].Ints, g.Columns[2].Texts = append(g.Columns[0].Floats, r.float), append(g.Columns[1].Ints, r.whole), append(g.Columns[2].Texts, r.text)
	}
	if _, err := h.Engine.Append(ctx, &model.Batch{Run: run, Writer: w, Attempt: 1, First: 1, Last: uint64(len(rows)), Groups: []model.RowGroup{g}}); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(rows, func(a, b extreme) int { return cmp.Compare(a.step, b.step) })
	sameExtremes(t, h, run, rows, "in memory")
	for what := range 4 {
		if err := h.Upkeep(h.Engine, what); err != nil {
			t.Fatal(err)
		}
		sameExtremes(t, h, run, rows, "after upkeep")
		if err := reopen(h); err != nil {
			t.Fatal(err)
		}
		sameExtremes(t, h, run, rows, "after reopening")
	}
}

func sameExtremes(t *testing.T, h *Harness, run model.RunID, want []extreme, stage string) {
	t.Helper()
	for _, name := range []string{"x", "n", "text"} {
		got, err := h.Engine.Scan(t.Context(), store.ScanRequest{Run: run, Series: idOf(t, h.Engine, run, name), Axis: model.AxisStep, From: math.MinInt64, To: math.MaxInt64, Limit: len(want) + 1})
		if err != nil || len(got.TimeNs) != len(want) {
			t.Fatalf("%s: %s has %d rows, %v", stage, name, len(got.TimeNs), err)
		}
		for i, r := range want {
			v := valueOf(&got.Values, i)
			same := map[string]bool{"x": math.Float64bits(v.Float) == math.Float64bits(r.float), "n": v.Int == r.whole, "text": string(v.Doc) == r.text}
			if !same[name] || got.TimeNs[i] != r.time || got.Axes[0].Values[i] != r.step {
				t.Fatalf("%s: %s at step %d (%d ns) is %+v, want %+v", stage, name, got.Axes[0].Values[i], got.TimeNs[i], v, r)
			}
		}
	}
}
