package local_test

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/testkit/cost"
	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

// longSeries writes segments of points at random steps, so that many are superseded.
func longSeries(t *testing.T, e *local.Engine, run model.RunID, segments, rows int) {
	t.Helper()
	if err := e.PutAttempt(t.Context(), run, model.Attempt{Number: 1}); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for n := range segments {
		g := model.RowGroup{Axes: []model.AxisColumn{{Axis: model.AxisStep}}, Columns: []model.Column{{Series: model.NewSeriesKey("loss", "", nil), Kind: model.KindFloat}}}
		for i := range rows {
			g.Axes[0].Values = append(g.Axes[0].Values, random.Int64N(int64(segments*rows)))
			g.TimeNs = append(g.TimeNs, int64(n*rows+i))
			g.Columns[0].Floats = append(g.Columns[0].Floats, random.Float64())
		}
		must(e.Append(t.Context(), &model.Batch{Run: run, Writer: model.WriterID(run), Attempt: 1, Groups: []model.RowGroup{g}}))
		if err := e.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func readLong(t *testing.T, e *local.Engine, run model.RunID) {
	t.Helper()
	list(t, e, run, 1)
	for _, axis := range []model.Axis{model.AxisStep, model.AxisTime} {
		if _, err := e.Buckets(t.Context(), store.BucketsRequest{Run: run, Axis: axis, N: 100, To: 1 << 40}); err != nil {
			t.Error(err)
		}
	}
}

// TestMemoryOfLongSeries measures what reads of a long series keep, and what the
// engine says that they do: while it is read, and when it is forgotten.
func TestMemoryOfLongSeries(t *testing.T) {
	if cost.Raced {
		t.Skip("the race detector's own memory is counted too")
	}
	e := must(local.Open(t.Context(), local.Config{Dir: t.TempDir(), FS: hasty{wal.OS{}}}))
	defer e.Close()
	e.Eager() // many leaves of few points
	warm, run := model.RunID{9}, model.RunID{1}
	for _, id := range []model.RunID{warm, run} {
		longSeries(t, e, id, 12, 2000)
	}
	readLong(t, e, warm) // what is made once
	e.Forget()
	base, told := float64(heap()), float64(e.Stats().MemoryBytes)
	readLong(t, e, run)
	taken, counted := float64(heap())-base, float64(e.Stats().MemoryBytes)-told
	t.Logf("%.0f KiB taken, %.0f counted", taken/1024, counted/1024)
	if taken < 512<<10 {
		t.Errorf("%.0f B are kept: the test does not show what it should", taken)
	}
	if counted < 0.8*taken || counted > 1.3*taken {
		t.Errorf("%.0f B of %.0f are counted", counted, taken)
	}
	e.Forget()
	if left := float64(e.Stats().MemoryBytes) - told; left != 0 {
		t.Errorf("%.0f B are counted of what is forgotten", left)
	}
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for range 2 {
				readLong(t, e, run)
			}
		})
	}
	for range 20 {
		e.Forget()
	}
	all.Wait()
	e.Forget()
	if left := float64(e.Stats().MemoryBytes) - told; left != 0 {
		t.Errorf("%.0f B are counted of what reads beside it kept", left)
	}
}
