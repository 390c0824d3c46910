package local_test

import (
	"runtime"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

// TestMemoryOfAPage reads long pages of numbers, in memory and in segments. The first read
// of a segment decodes it too.
func TestMemoryOfAPage(t *testing.T) {
	alone(t)
	const rows, batch, inMemory, decoded = 200_000, 10_000, 100, 300
	e := must(local.Open(t.Context(), local.Config{Dir: t.TempDir()}))
	defer e.Close()
	run := model.RunID{1}
	if err := e.PutAttempt(t.Context(), run, model.Attempt{Number: 1}); err != nil {
		t.Fatal(err)
	}
	for at := 0; at < rows; at += batch {
		g := model.RowGroup{Axes: []model.AxisColumn{{Axis: model.AxisStep}}, Columns: []model.Column{{Series: model.NewSeriesKey("long", "", nil), Kind: model.KindFloat}}}
		for i := at; i < at+batch; i++ {
			g.TimeNs, g.Axes[0].Values = append(g.TimeNs, int64(i)), append(g.Axes[0].Values, int64(i))
			g.Columns[0].Floats = append(g.Columns[0].Floats, float64(i)*0.37)
		}
		must(e.Append(t.Context(), &model.Batch{Run: run, Writer: model.WriterID(run), Attempt: 1, Groups: []model.RowGroup{g}}))
	}
	scan := func(axis model.Axis, most uint64) {
		t.Helper()
		page, _, err := e.ListSeries(t.Context(), run, store.SeriesFilter{Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		out := must(e.Scan(t.Context(), store.ScanRequest{Run: run, Series: page[0].ID, Axis: axis, From: 0, To: rows, Limit: rows}))
		runtime.ReadMemStats(&after)
		if n := len(out.TimeNs); n != rows {
			t.Fatalf("%d rows", n)
		}
		if got := (after.TotalAlloc - before.TotalAlloc) / rows; got > most {
			t.Errorf("by %s: a row allocates %d bytes, at most %d", axis, got, most)
		}
	}
	scan(model.AxisStep, inMemory)
	scan(model.AxisTime, inMemory)
	if err := e.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	scan(model.AxisStep, decoded)
	scan(model.AxisTime, decoded)
}
