package clickhouse_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
)

// The ledger keeps the least and the greatest value of each series, also for the next server that
// writes to the run. It does not know them after an older server added to a series, and after a
// resume that cut points off.
func TestExtents(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run, w := model.RunID{1}, model.WriterID{1}
	keys := []model.SeriesKey{model.NewSeriesKey("float", "", nil), model.NewSeriesKey("int", "", nil), model.NewSeriesKey("nan", "", nil)}
	send := func(e store.Engine, first uint64, attempt uint32, floats []float64, ints []int64) {
		t.Helper()
		g := model.RowGroup{Axes: []model.AxisColumn{{Axis: model.AxisStep}}, Columns: []model.Column{
			{Series: keys[0], Kind: model.KindFloat, Floats: floats}, {Series: keys[1], Kind: model.KindInt, Ints: ints}, {Series: keys[2], Kind: model.KindFloat},
		}}
		for i := range floats {
			seq := first + uint64(i)
			g.Seq, g.TimeNs = append(g.Seq, seq), append(g.TimeNs, int64(seq))
			g.Axes[0].Values, g.Columns[2].Floats = append(g.Axes[0].Values, int64(seq)), append(g.Columns[2].Floats, math.NaN())
		}
		b := &model.Batch{Run: run, Writer: w, Attempt: attempt, First: first, Last: first + uint64(len(floats)) - 1, Groups: []model.RowGroup{g}}
		if _, err := e.Append(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(e store.Engine, want ...*store.Extent) {
		t.Helper()
		list, _, err := e.ListSeries(t.Context(), run, store.SeriesFilter{Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range list {
			if diff := cmp.Diff(want[i], s.Extent); diff != "" {
				t.Errorf("%s (-want +got):\n%s", s.Key.Metric, diff)
			}
		}
	}
	of := func(least, most float64) *store.Extent {
		return &store.Extent{Min: store.Number{Float: least}, Max: store.Number{Float: most}}
	}
	ofInts := func(least, most int64) *store.Extent {
		return &store.Extent{Min: store.Number{Int: least}, Max: store.Number{Int: most}}
	}
	a := r.open(t, "a")
	open(t, a, run, w)
	send(a, 1, 1, []float64{1.5, math.NaN(), math.Inf(-1), -3.25, math.Inf(1)}, []int64{5, 7, 6, 5, 5})
	expect(a, of(-3.25, 1.5), ofInts(5, 7), nil)
	b := r.open(t, "b")
	send(b, 6, 1, []float64{-math.MaxFloat64, math.SmallestNonzeroFloat64}, []int64{math.MinInt64, math.MaxInt64})
	expect(b, of(-math.MaxFloat64, 1.5), ofInts(math.MinInt64, math.MaxInt64), nil)
	r.ledger.Do(t, "UPDATE "+r.schema+".ledger_streams SET count = count + 1 WHERE series = 1") // as an older server does
	expect(b, of(-math.MaxFloat64, 1.5), nil, nil)
	from := int64(3)
	if err := b.PutAttempt(t.Context(), run, model.Attempt{Number: 2, Precedence: 2, ResumeFrom: &from}); err != nil {
		t.Fatal(err)
	}
	expect(b, nil, nil, nil)
}
