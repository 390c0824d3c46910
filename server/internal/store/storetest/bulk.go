package storetest

import (
	"math"
	"slices"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
)

// testBulk writes long series, so that engines that store summaries use them,
// and supersedes parts of them in each way. The oracle is a map by step.
func testBulk(t *testing.T, open func(t testing.TB) *Harness) {
	h := open(t)
	defer func() { _ = h.Engine.Close() }()
	b := &bulk{t: t, h: h, run: model.RunID{7}, next: map[model.WriterID]uint64{}, want: map[int64]float64{}}
	resume := int64(20_000)
	b.attempt(model.Attempt{Number: 1, Precedence: 1})
	b.write(1, 1, 0, 24_000, 1)
	b.check("in order", 0)
	b.write(1, 1, 3_000, 3_100, 2) // logged again
	b.check("with repeats", 1)
	b.attempt(model.Attempt{Number: 2, Precedence: 2, ResumeFrom: &resume})
	for step := range b.want {
		if step >= resume {
			delete(b.want, step)
		}
	}
	b.check("cut", 2)
	b.write(2, 2, 20_000, 22_500, 3)
	b.check("resumed", 3)
	b.attempt(model.Attempt{Number: 3, Precedence: 3})
	b.write(3, 3, 9_000, 9_700, 4)
	b.check("overwritten", 4)
	if err := reopen(h); err != nil {
		t.Fatal(err)
	}
	b.check("after reopening", 3)
}

type bulk struct {
	t    *testing.T
	h    *Harness
	run  model.RunID
	next map[model.WriterID]uint64
	want map[int64]float64
}

func (b *bulk) attempt(a model.Attempt) {
	b.t.Helper()
	if err := b.h.Engine.PutAttempt(b.t.Context(), b.run, a); err != nil {
		b.t.Fatal(err)
	}
}

// write logs the steps from lo to hi, in batches of a thousand.
func (b *bulk) write(writer byte, attempt uint32, lo, hi int64, factor float64) {
	b.t.Helper()
	w := model.WriterID{9, writer}
	for from := lo; from < hi; from += 1000 {
		g := model.RowGroup{Axes: []model.AxisColumn{{Axis: model.AxisStep}}, Columns: []model.Column{
			{Series: model.NewSeriesKey("bulk", "", nil), Kind: model.KindFloat}, {Series: model.NewSeriesKey("other", "", nil), Kind: model.KindInt},
		}}
		first := b.next[w] + 1
		for step := from; step < min(from+1000, hi); step++ {
			v := factor * math.Sin(float64(step)/50)
			if step%977 == 0 {
				v = math.NaN()
			} else if step%1013 == 0 {
				v = 1.7e308 // two of them are more than a float64 holds
			}
			b.next[w]++
			b.want[step] = v
			g.Axes[0].Values, g.TimeNs, g.Seq = append(g.Axes[0].Values, step), append(g.TimeNs, step*1000+int64(writer)), append(g.Seq, b.next[w])
			g.Columns[0].Floats, g.Columns[1].Ints = append(g.Columns[0].Floats, v), append(g.Columns[1].Ints, bulkInt(step))
		}
		batch := &model.Batch{Run: b.run, Writer: w, Attempt: attempt, First: first, Last: b.next[w], Groups: []model.RowGroup{g}}
		if _, err := b.h.Engine.Append(b.t.Context(), batch); err != nil {
			b.t.Fatal(err)
		}
	}
}

// bulkInt is beyond what float64 holds exactly.
func bulkInt(step int64) int64 { return 1<<60 + step*step }

// check compares before and after a kind of upkeep.
func (b *bulk) check(stage string, what int) {
	b.t.Helper()
	counts := []int{1, 7, 40, 1000, 100_000}
	if testing.Short() { // as the race detector runs it: the sums take most of the time, and are of one goroutine
		counts = []int{40}
	}
	for range 2 {
		steps := make([]int64, 0, len(b.want))
		for step := range b.want {
			steps = append(steps, step)
		}
		slices.Sort(steps)
		b.list(stage, steps)
		for _, n := range counts {
			b.buckets(stage, steps, math.MinInt64, math.MaxInt64, n)
			b.buckets(stage, steps, 2_500, 19_999, n)
		}
		b.scan(stage, steps)
		if err := b.h.Upkeep(b.h.Engine, what); err != nil {
			b.t.Fatal(err)
		}
	}
}

func (b *bulk) list(stage string, steps []int64) {
	b.t.Helper()
	list, _, err := b.h.Engine.ListSeries(b.t.Context(), b.run, store.SeriesFilter{Limit: 10})
	if err != nil || len(list) != 2 {
		b.t.Fatalf("%s: %v, %v", stage, list, err)
	}
	last := steps[len(steps)-1]
	for _, s := range list {
		if s.Count != uint64(len(steps)) || *s.Last.Step != last || s.Kind == model.KindInt && s.Last.Value.Int != bulkInt(last) {
			b.t.Fatalf("%s: %+v, want %d points up to %d", stage, s, len(steps), last)
		}
	}
}

func (b *bulk) buckets(stage string, steps []int64, from, to int64, n int) {
	b.t.Helper()
	var xs []int64
	var floats, ints []store.Number
	for _, x := range steps {
		if x >= from && x <= to {
			xs, floats, ints = append(xs, x), append(floats, store.Number{Float: b.want[x]}), append(ints, store.Number{Int: bulkInt(x)})
		}
	}
	for name, vs := range map[string][]store.Number{"bulk": floats, "other": ints} {
		kind := map[string]model.Kind{"bulk": model.KindFloat, "other": model.KindInt}[name]
		r := store.BucketsRequest{Run: b.run, Series: idOf(b.t, b.h.Engine, b.run, name), Axis: model.AxisStep, From: from, To: to, N: n}
		got, err := b.h.Engine.Buckets(b.t.Context(), r)
		if err == nil {
			err = CheckBuckets(got, n, kind, xs, vs)
		}
		if r.Grid = true; err == nil {
			got, err = b.h.Engine.Buckets(b.t.Context(), r)
		}
		if err == nil {
			err = CheckGrid(got, from, to, n, kind, xs, vs)
		}
		if err != nil {
			b.t.Fatalf("%s: series %s, %d buckets from %d to %d: %v", stage, name, n, from, to, err)
		}
	}
}

// scan pages through everything.
func (b *bulk) scan(stage string, steps []int64) {
	b.t.Helper()
	req := store.ScanRequest{Run: b.run, Series: idOf(b.t, b.h.Engine, b.run, "bulk"), Axis: model.AxisStep, From: math.MinInt64, To: math.MaxInt64, Limit: 7_001}
	at := 0
	for {
		rows, err := b.h.Engine.Scan(b.t.Context(), req)
		if err != nil {
			b.t.Fatal(err)
		}
		for i, v := range rows.Values.Floats {
			if at == len(steps) || rows.Axes[0].Values[i] != steps[at] || math.Float64bits(v) != math.Float64bits(b.want[steps[at]]) {
				b.t.Fatalf("%s: row %d is step %d with %v", stage, at, rows.Axes[0].Values[i], v)
			}
			at++
		}
		if rows.Next == nil {
			break
		}
		req.After = rows.Next
	}
	if at != len(steps) {
		b.t.Fatalf("%s: %d rows, want %d", stage, at, len(steps))
	}
}

// idOf looks a series up by its metric's name.
func idOf(t *testing.T, e store.Engine, run model.RunID, metric string) store.SeriesID {
	t.Helper()
	list, _, err := e.ListSeries(t.Context(), run, store.SeriesFilter{Metric: metric, Limit: 1})
	if err != nil || len(list) != 1 {
		t.Fatalf("series %s: %v, %v", metric, list, err)
	}
	return list[0].ID
}
