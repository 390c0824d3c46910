package local_test

import (
	"math"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

// BenchmarkForkBuckets charts a series of 10 M points that were logged by one run,
// and as many of which a fork inherits the first half: alone, again at the step of
// the fork, on time, and with the parent restarted twice.
func BenchmarkForkBuckets(b *testing.B) {
	half := int64(5_000_000)
	if testing.Short() {
		half /= 20
	}
	e, err := local.Open(b.Context(), local.Config{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	whole, parent, fork, again, restarted := model.RunID{1}, model.RunID{2}, model.RunID{3}, model.RunID{4}, model.RunID{5}
	write := func(run model.RunID, attempt uint32, from, to int64) {
		b.Helper()
		resume := from
		a := model.Attempt{Number: attempt, Precedence: int64(attempt)}
		if attempt > 1 {
			a.ResumeFrom = &resume
		}
		if err := e.PutAttempt(b.Context(), run, a); err != nil {
			b.Fatal(err)
		}
		for at := from; at < to; at += 10_000 {
			batch := steadyBatch(run, attempt, at-from+1, at, min(10_000, to-at))
			if _, err := e.Append(b.Context(), batch); err != nil {
				b.Fatal(err)
			}
			if at%1_000_000 == 0 {
				if err := e.Flush(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	write(whole, 1, 0, 2*half)
	write(parent, 1, 0, half+half/2) // and goes on behind the fork
	write(fork, 1, half+1, 2*half)
	write(again, 1, half, 2*half)
	write(restarted, 1, 0, half)
	write(restarted, 2, half/2, half)
	write(restarted, 3, half/4, half+half/2)
	if err := e.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	if err := e.Compact(b.Context(), true); err != nil {
		b.Fatal(err)
	}
	read := func(name string, run model.RunID, axis model.Axis, n int, ancestors ...model.RunID) {
		b.Run(name, func(b *testing.B) {
			r := store.BucketsRequest{Run: run, Series: idOf(b, e, run), Axis: axis, From: math.MinInt64, To: math.MaxInt64, N: n}
			for _, a := range ancestors {
				r.Ancestors = append(r.Ancestors, store.Ancestor{Run: a, Series: idOf(b, e, a), UpTo: half})
			}
			for b.Loop() {
				buckets, err := e.Buckets(b.Context(), r)
				if err != nil || len(buckets) < n/2 {
					b.Fatal(len(buckets), err)
				}
			}
		})
	}
	read("whole", whole, model.AxisStep, 1000)
	read("fork", fork, model.AxisStep, 1000, parent)
	read("fork at an equal step", again, model.AxisStep, 1000, parent)
	read("fork on time", fork, model.AxisTime, 1000, parent)
	read("fork of a restarted run", fork, model.AxisStep, 1000, restarted)
	b.Run("end", func(b *testing.B) {
		for b.Loop() {
			end, err := e.Curve(b.Context(), store.CurveRequest{Run: fork, Series: idOf(b, e, fork), Ancestors: []store.Ancestor{{Run: parent, Series: idOf(b, e, parent), UpTo: half}}})
			if err != nil || end.Count != uint64(2*half) {
				b.Fatal(end, err)
			}
		}
	})
}

func idOf(b *testing.B, e *local.Engine, run model.RunID) store.SeriesID {
	list, _, err := e.ListSeries(b.Context(), run, store.SeriesFilter{Limit: 1})
	if err != nil || len(list) != 1 {
		b.Fatal(list, err)
	}
	return list[0].ID
}

func steadyBatch(run model.RunID, attempt uint32, first, step, n int64) *model.Batch {
	g := model.RowGroup{Axes: []model.AxisColumn{{Axis: model.AxisStep}}, Columns: []model.Column{{Series: model.NewSeriesKey("loss", "", nil), Kind: model.KindFloat}}}
	for i := range n {
		g.Axes[0].Values = append(g.Axes[0].Values, step+i)
		g.TimeNs = append(g.TimeNs, 1e18+(step+i)*1e6)
		g.Seq = append(g.Seq, uint64(first+i))
		g.Columns[0].Floats = append(g.Columns[0].Floats, math.Sin(float64(step+i)))
	}
	return &model.Batch{Run: run, Writer: model.WriterID{run[0], byte(attempt)}, Attempt: attempt, First: uint64(first), Last: uint64(first + n - 1), Groups: []model.RowGroup{g}}
}
