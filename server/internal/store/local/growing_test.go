package local_test

import (
	"math"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

// growing writes a run as a training does, a flush every so many steps, merges included:
// a loss and a rate of each step, and an accuracy of every hundredth.
type growing struct {
	e    *local.Engine
	run  model.RunID
	step int
}

const flushedSteps = 1100

func growingLoss(step int) float64 { return float64(step*7919%10_007) / 7 }

func (g *growing) write(t *testing.T, flushes int) {
	t.Helper()
	for range flushes {
		each := model.RowGroup{Axes: []model.AxisColumn{{Axis: model.AxisStep}}, Columns: []model.Column{{Series: model.NewSeriesKey("loss", "", nil), Kind: model.KindFloat}, {Series: model.NewSeriesKey("rate", "", nil), Kind: model.KindInt}}}
		rare := model.RowGroup{Axes: []model.AxisColumn{{Axis: model.AxisStep}}, Columns: []model.Column{{Series: model.NewSeriesKey("accuracy", "", nil), Kind: model.KindFloat}}}
		for range flushedSteps {
			if g.step%100 == 0 {
				rare.Axes[0].Values, rare.TimeNs = append(rare.Axes[0].Values, int64(g.step)), append(rare.TimeNs, int64(g.step)*1_000_003)
				rare.Columns[0].Floats = append(rare.Columns[0].Floats, 0.5)
			}
			each.Axes[0].Values, each.TimeNs = append(each.Axes[0].Values, int64(g.step)), append(each.TimeNs, int64(g.step)*1_000_003)
			each.Columns[0].Floats = append(each.Columns[0].Floats, growingLoss(g.step))
			each.Columns[1].Ints = append(each.Columns[1].Ints, int64(g.step))
			g.step++
		}
		must(g.e.Append(t.Context(), &model.Batch{Run: g.run, Writer: model.WriterID(g.run), Attempt: 1, Groups: []model.RowGroup{each, rare}}))
		if err := g.e.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := g.e.Compact(t.Context(), false); err != nil {
			t.Fatal(err)
		}
	}
}

// lossID is the series of losses.
func (g *growing) lossID(t *testing.T) store.SeriesID {
	t.Helper()
	list, _, err := g.e.ListSeries(t.Context(), g.run, store.SeriesFilter{Limit: 10})
	if err != nil || len(list) != 3 {
		t.Fatal(list, err)
	}
	for _, s := range list {
		if s.Key.Metric == "loss" {
			return s.ID
		}
	}
	t.Fatal(list)
	return 0
}

// check compares points and buckets of a range with the losses as they were sent.
func (g *growing) check(t *testing.T, from, to, n int) {
	t.Helper()
	id := g.lossID(t)
	rows := must(g.e.Scan(t.Context(), store.ScanRequest{Run: g.run, Series: id, Axis: model.AxisStep, From: int64(from), To: int64(to), Limit: to - from + 2}))
	if len(rows.TimeNs) != to-from+1 {
		t.Fatalf("%d…%d has %d points", from, to, len(rows.TimeNs))
	}
	for i, v := range rows.Values.Floats {
		if v != growingLoss(from+i) || rows.Axes[0].Values[i] != int64(from+i) {
			t.Fatalf("step %d has %v", from+i, v)
		}
	}
	buckets := must(g.e.Buckets(t.Context(), store.BucketsRequest{Run: g.run, Series: id, Axis: model.AxisStep, From: int64(from), To: int64(to), N: n}))
	at := from
	for _, b := range buckets {
		least, most, sum := math.Inf(1), math.Inf(-1), 0.0
		for step := at; step < at+int(b.Count); step++ {
			least, most, sum = min(least, growingLoss(step)), max(most, growingLoss(step)), sum+growingLoss(step)
		}
		if b.Lo != int64(at) || b.Hi != int64(at)+int64(b.Count)-1 || b.Min != least || b.Max != most || math.Abs(b.Sum-sum) > 1e-9*math.Abs(sum) {
			t.Fatalf("%d…%d in %d: bucket %+v, want %v, %v, %v from %d on", from, to, n, b, least, most, sum, at)
		}
		if width := 2 * (to - from + n) / n; b.Hi-b.Lo > int64(width) {
			t.Fatalf("%d…%d in %d: a bucket of %d steps", from, to, n, b.Hi-b.Lo)
		}
		at += int(b.Count)
	}
	if at != to+1 {
		t.Fatalf("%d…%d: buckets end at %d", from, to, at)
	}
}

// TestMemoryAPointFalls: a series that grows takes less memory for each of its points,
// since neighbouring groups of some flushes become a long one; every zoom into it is
// what was sent, live, after merges and after a restart.
func TestMemoryAPointFalls(t *testing.T) {
	alone(t)
	dir := t.TempDir()
	g := &growing{e: must(local.Open(t.Context(), local.Config{Dir: dir, FS: hasty{wal.OS{}}})), run: model.RunID{1}}
	defer func() { _ = g.e.Close() }()
	if err := g.e.PutAttempt(t.Context(), g.run, model.Attempt{Number: 1}); err != nil {
		t.Fatal(err)
	}
	var perPoint []float64
	for _, flushes := range []int{7, 393} {
		base := g.e.Stats().MemoryBytes
		if len(perPoint) > 0 {
			g.e.Forget()
			base = g.e.Stats().MemoryBytes
		}
		g.write(t, flushes)
		for _, zoom := range []int{2, 100, 1_000, 7_000} {
			for _, n := range []int{3, 100, 1_000} {
				g.check(t, g.step/2, min(g.step/2+zoom, g.step-1), n)
				g.check(t, g.step-min(zoom, g.step), g.step-1, n)
			}
		}
		g.check(t, 0, g.step-1, 1_000)
		perPoint = append(perPoint, float64(g.e.Stats().MemoryBytes-base)/float64(2*g.step))
	}
	t.Logf("%.2f B a point", perPoint)
	if perPoint[1] > perPoint[0]/3 {
		t.Errorf("%.2f B a point of 400 flushes, %.2f of 7", perPoint[1], perPoint[0])
	}
	if err := g.e.Close(); err != nil {
		t.Fatal(err)
	}
	g.e = must(local.Open(t.Context(), local.Config{Dir: dir}))
	g.check(t, 0, g.step-1, 1_000)
}
