package local_test

import (
	"context"
	"reflect"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

// supersededRun has a series of very many points at few times: the last one of each time
// counts, as for InfluxDB.
func supersededRun(t *testing.T) (e *local.Engine, q store.BucketsRequest, want []float64) {
	t.Helper()
	const rows, batch = 200_000, 20_000
	e = must(local.Open(t.Context(), local.Config{Dir: t.TempDir()}))
	t.Cleanup(func() { _ = e.Close() })
	run := model.RunID{1}
	if err := e.PutAttempt(t.Context(), run, model.Attempt{Number: 1}); err != nil {
		t.Fatal(err)
	}
	for at := 0; at < rows; at += batch {
		g := model.RowGroup{Unique: model.UniqueTime, Columns: []model.Column{{Series: model.NewSeriesKey("s", "", nil), Kind: model.KindFloat}}}
		for i := at; i < at+batch; i++ {
			g.TimeNs, g.Columns[0].Floats = append(g.TimeNs, int64(at+1)), append(g.Columns[0].Floats, float64(i))
		}
		must(e.Append(t.Context(), &model.Batch{Run: run, Writer: model.WriterID(run), Attempt: 1, Groups: []model.RowGroup{g}}))
		want = append(want, float64(at+batch-1))
	}
	page, _, err := e.ListSeries(t.Context(), run, store.SeriesFilter{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	return e, store.BucketsRequest{Run: run, Series: page[0].ID, Axis: model.AxisTime, To: rows, N: 2000}, want
}

// Superseded points of segments are read once: charts after the first read none of them.
func TestSupersededPointsAreReadOnce(t *testing.T) {
	e, q, want := supersededRun(t)
	for range 2 { // in memory, in segments
		for range 3 {
			q.From++ // another chart each time
			buckets := must(e.Buckets(t.Context(), q))
			if q.From > 1 {
				want := want[1:]
				for i, b := range buckets {
					if len(buckets) != len(want) || b.Count != 1 || b.Min != want[i] || b.Max != want[i] {
						t.Fatalf("%d buckets, %d is %+v", len(buckets), i, b)
					}
				}
			}
		}
		if err := e.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	must(e.Buckets(t.Context(), q))
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 256<<10 {
		t.Errorf("a chart of %d points allocates %d bytes", len(want)-1, got)
	}
}

// What was worked out of a series holds while it goes on: a chart after a flush reads no
// superseded point again.
func TestSupersededPointsAreReadOnceWhileWritten(t *testing.T) {
	e, q, want := supersededRun(t)
	if err := e.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	must(e.Buckets(t.Context(), q))
	for n := range 3 {
		q.To = int64(300_000 + n)
		g := model.RowGroup{Unique: model.UniqueTime, TimeNs: []int64{q.To}, Columns: []model.Column{{Series: model.NewSeriesKey("s", "", nil), Kind: model.KindFloat, Floats: []float64{float64(n)}}}}
		must(e.Append(t.Context(), &model.Batch{Run: q.Run, Writer: model.WriterID(q.Run), Attempt: 1, Groups: []model.RowGroup{g}}))
		if err := e.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		want = append(want, float64(n))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		buckets := must(e.Buckets(t.Context(), q))
		runtime.ReadMemStats(&after)
		count, sum, total := uint64(0), 0.0, 0.0
		for _, b := range buckets {
			count, sum = count+b.Count, sum+b.Sum
		}
		for _, v := range want {
			total += v
		}
		if count != uint64(len(want)) || sum != total {
			t.Errorf("%d points with the sum %g, want %d with %g", count, sum, len(want), total)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > 256<<10 {
			t.Errorf("a chart of %d points allocates %d bytes", count, got)
		}
	}
}

// endsAfter is a context that ends when it was asked so many times.
type endsAfter struct {
	context.Context
	left atomic.Int64
}

func (c *endsAfter) Err() error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// A read whose caller is gone stops, also in the middle of what it works out, and is
// never a short answer.
func TestAReadEndsWithItsCaller(t *testing.T) {
	e, q, want := supersededRun(t)
	if err := e.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	scan := store.ScanRequest{Run: q.Run, Series: q.Series, Axis: q.Axis, To: q.To, Limit: 1000}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, read := range []func() error{
		func() error { _, err := e.Buckets(gone, q); return err },
		func() error { _, err := e.Scan(gone, scan); return err },
	} {
		if err := read(); model.CodeOf(err) != model.CodeTimeout {
			t.Errorf("got %v", err)
		}
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 256<<10 {
		t.Errorf("reads for nobody allocate %d bytes", got)
	}
	for ends := int64(0); ; ends++ {
		ctx := &endsAfter{Context: t.Context()}
		ctx.left.Store(ends)
		rows, err := e.Scan(ctx, scan)
		if err == nil && !reflect.DeepEqual(rows.Values.Floats, want) {
			t.Fatalf("after %d: %v", ends, rows.Values.Floats)
		}
		ctx.left.Store(ends)
		buckets, err2 := e.Buckets(ctx, q)
		if err2 == nil && len(buckets) != len(want) {
			t.Fatalf("after %d: %d buckets", ends, len(buckets))
		}
		if err == nil && err2 == nil {
			break
		}
	}
}
