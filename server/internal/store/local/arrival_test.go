package local_test

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal/faultfs"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

// pages reads a series in pages; a flush may come between two of them.
func pages(t *testing.T, e *local.Engine, random *rand.Rand, name string) (out []float64) {
	t.Helper()
	list, _, err := e.ListSeries(t.Context(), model.RunID{1}, store.SeriesFilter{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(list, func(s store.Series) bool { return s.Key.Metric == name })
	q := store.ScanRequest{Run: model.RunID{1}, Series: list[at].ID, Axis: model.AxisTime, To: 1 << 40, Limit: 1 + random.IntN(600)}
	for flush := random.IntN(6); ; flush-- {
		page := must(e.Scan(t.Context(), q))
		out = append(out, page.Values.Floats...)
		if flush == 0 {
			if err := e.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if q.After = page.Next; q.After == nil {
			return out
		}
	}
}

// TestTimesInNoOrder sends points at random times, many of them again with another value:
// alone, with a second series and with a step, in between one another. Whatever is flushed
// and merged meanwhile, the last value of each time stands, and pages that began
// before a flush go on after it. Points without a rule are all kept, in the order of arrival.
func TestTimesInNoOrder(t *testing.T) {
	alone(t)
	for seed := range uint64(3) {
		random := rand.New(rand.NewPCG(seed, 1))
		e := must(local.Open(t.Context(), local.Config{Dir: "/data", FS: faultfs.New(), SegmentBytes: 4 << 10, CompactFiles: 3}))
		run := model.RunID{1}
		if err := e.PutAttempt(t.Context(), run, model.Attempt{Number: 1}); err != nil {
			t.Fatal(err)
		}
		type row struct {
			time  int64
			value float64
		}
		last := map[int64]float64{} // of the series "a"
		var free []row
		n := 0.0
		send := func(rows int, stepped, second bool) {
			g := model.RowGroup{Unique: model.UniqueTime}
			a, b := model.Column{Series: model.NewSeriesKey("a", "", nil), Kind: model.KindFloat}, model.Column{Series: model.NewSeriesKey("b", "", nil), Kind: model.KindFloat}
			if stepped {
				g.Axes = []model.AxisColumn{{Axis: model.AxisStep}}
			}
			for range rows {
				at := random.Int64N(700)
				n++
				last[at] = n
				g.TimeNs, a.Floats, b.Floats = append(g.TimeNs, at), append(a.Floats, n), append(b.Floats, -n)
				if stepped {
					g.Axes[0].Values = append(g.Axes[0].Values, 7)
				}
			}
			if g.Columns = []model.Column{a}; second {
				g.Columns = append(g.Columns, b)
			}
			f := model.RowGroup{TimeNs: g.TimeNs, Columns: []model.Column{{Series: model.NewSeriesKey("free", "", nil), Kind: model.KindFloat, Floats: a.Floats}}}
			for i, at := range f.TimeNs {
				free = append(free, row{at, a.Floats[i]})
			}
			must(e.Append(t.Context(), &model.Batch{Run: run, Writer: model.WriterID(run), Attempt: 1, Groups: []model.RowGroup{g, f}}))
		}
		check := func(when string) {
			t.Helper()
			var values []float64
			for _, at := range slices.Sorted(maps.Keys(last)) {
				values = append(values, last[at])
			}
			if got := pages(t, e, random, "a"); !slices.Equal(got, values) {
				t.Fatalf("seed %d, %s: %d values, want %d", seed, when, len(got), len(values))
			}
			slices.SortStableFunc(free, func(a, b row) int { return cmp.Compare(a.time, b.time) })
			values = nil
			for _, r := range free {
				values = append(values, r.value)
			}
			if got := pages(t, e, random, "free"); !slices.Equal(got, values) {
				t.Fatalf("seed %d, %s: %d values without a rule, want %d", seed, when, len(got), len(values))
			}
		}
		for range 10 {
			mixed := random.IntN(2) == 0
			for range 1 + random.IntN(8) {
				rows := []int{1, 70, 300}[random.IntN(3)]
				send(rows, mixed && random.IntN(4) == 0, mixed && random.IntN(2) == 0)
			}
			check("in memory")
			if err := e.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			check("flushed")
			if err := e.Compact(t.Context(), random.IntN(5) == 0); err != nil {
				t.Fatal(err)
			}
			check("merged")
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
