package local_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

// mlRun is the workload "ML run" of the design: 50 series that share a step and
// a millisecond time.
func mlRun(run int, steps, perBatch int) []*model.Batch {
	random := rand.New(rand.NewPCG(uint64(run), 9))
	type state struct{ level, ar float64 }
	states := make([]state, 50)
	for i := range states {
		states[i].level = 1 + random.Float64()*3
	}
	ms := int64(1_700_000_000_000)
	var out []*model.Batch
	for from := 0; from < steps; from += perBatch {
		n := min(perBatch, steps-from)
		g := model.RowGroup{Axes: []model.AxisColumn{{Axis: model.AxisStep}}}
		g.Columns = make([]model.Column, 50)
		for i := range g.Columns {
			g.Columns[i] = model.Column{Series: model.NewSeriesKey(fmt.Sprintf("group%d/metric_%d", i/10, i), "", nil), Kind: model.KindFloat}
		}
		for row := range n {
			step := from + row
			ms += 100 + int64(random.NormFloat64()*15)
			g.Axes[0].Values = append(g.Axes[0].Values, int64(step))
			g.TimeNs = append(g.TimeNs, ms*1_000_000)
			g.Seq = append(g.Seq, uint64(step+1))
			for i := range g.Columns {
				g.Columns[i].Floats = append(g.Columns[i].Floats, mlValue(i, step, steps, &states[i].level, &states[i].ar, random))
			}
		}
		out = append(out, &model.Batch{Run: model.RunID{1, byte(run >> 8), byte(run)}, Writer: model.WriterID{1, byte(run >> 8), byte(run)}, Attempt: 1, First: uint64(from + 1), Last: uint64(from + n), Groups: []model.RowGroup{g}})
	}
	return out
}

func mlValue(i, step, steps int, level, ar *float64, random *rand.Rand) float64 {
	switch {
	case i < 15:
		*level *= 1 + 0.01*random.NormFloat64()
		return *level * (1 + 0.05*random.NormFloat64())
	case i < 20:
		return float64(i) * 1e-4 * 0.5 * (1 + math.Cos(math.Pi*float64(step)/float64(steps)))
	case i < 28:
		return float64(step * (i - 19) * 64)
	case i < 40:
		*ar = 0.95**ar + 0.2*random.NormFloat64()
		return float64(float32(math.Exp(*ar)))
	case i < 44:
		return float64(i) / 8
	}
	return math.Round(1e4*(0.5+0.2*random.NormFloat64()*0.1)) / 1e4
}

// BenchmarkMLRun measures CPU and bytes per point at rest, fsync before the ack.
func BenchmarkMLRun(b *testing.B) {
	runs := 50
	if testing.Short() {
		runs = 5
	}
	var batches []*model.Batch
	for r := range runs {
		batches = append(batches, mlRun(r, 2000, 100)...)
	}
	points := runs * 50 * 2000
	for b.Loop() {
		dir := b.TempDir()
		e, err := local.Open(b.Context(), local.Config{Dir: dir})
		if err != nil {
			b.Fatal(err)
		}
		cpu := cpuTime(b)
		for i, batch := range batches {
			if batch.First == 1 {
				if err := e.PutAttempt(b.Context(), batch.Run, model.Attempt{Number: 1}); err != nil {
					b.Fatal(err)
				}
			}
			if _, err := e.Append(b.Context(), batch); err != nil {
				b.Fatal(err)
			}
			if i%200 == 199 {
				if err := e.Flush(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.ReportMetric(float64(cpuTime(b)-cpu)/float64(points), "cpu-ns/point")
		if err := e.Compact(b.Context(), true); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(cpuTime(b)-cpu)/float64(points), "cpu-ns/point-compacted")
		if err := e.Close(); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(folderSize(b, filepath.Join(dir, "segments")))/float64(points), "bytes/point")
		start := time.Now()
		if e, err = local.Open(b.Context(), local.Config{Dir: dir}); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(time.Since(start).Milliseconds()), "open-ms")
		timeReads(b, e)
		if err := e.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func timeReads(b *testing.B, e *local.Engine) {
	run := model.RunID{1, 0, 1}
	start := time.Now()
	if list, _, err := e.ListSeries(b.Context(), run, store.SeriesFilter{Limit: 100}); err != nil || len(list) != 50 || list[0].Count != 2000 {
		b.Fatal(list, err)
	}
	b.ReportMetric(float64(time.Since(start).Microseconds()), "list-µs")
	start = time.Now()
	if rows, err := e.Scan(b.Context(), store.ScanRequest{Run: run, Axis: model.AxisStep, From: 0, To: math.MaxInt64, Limit: 10_000}); err != nil || len(rows.TimeNs) != 2000 {
		b.Fatal(err)
	}
	b.ReportMetric(float64(time.Since(start).Microseconds()), "scan-µs")
}

// BenchmarkLongSeries asks for 1,000 buckets of one long series.
func BenchmarkLongSeries(b *testing.B) {
	n := 10_000_000
	if testing.Short() {
		n = 1_000_000
	}
	e, err := local.Open(b.Context(), local.Config{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	run := model.RunID{1}
	if err := e.PutAttempt(b.Context(), run, model.Attempt{Number: 1}); err != nil {
		b.Fatal(err)
	}
	grow(b, e, run, n)
	for b.Loop() {
		got, err := e.Buckets(b.Context(), store.BucketsRequest{Run: run, Axis: model.AxisStep, From: math.MinInt64, To: math.MaxInt64, N: 1000})
		if err != nil || len(got) < 400 {
			b.Fatal(len(got), err)
		}
	}
}

// grow writes a series of n points, flushed every 50,000.
func grow(b *testing.B, e *local.Engine, run model.RunID, n int) {
	b.Helper()
	random := rand.New(rand.NewPCG(1, 9))
	for from := 0; from < n; from += 50_000 {
		g := model.RowGroup{Axes: []model.AxisColumn{{Axis: model.AxisStep}}, Columns: []model.Column{{Series: model.NewSeriesKey("loss", "", nil), Kind: model.KindFloat}}}
		for i := range 50_000 {
			g.Axes[0].Values = append(g.Axes[0].Values, int64(from+i))
			g.TimeNs = append(g.TimeNs, int64(from+i)*1e6)
			g.Seq = append(g.Seq, uint64(from+i+1))
			g.Columns[0].Floats = append(g.Columns[0].Floats, 2+0.1*random.NormFloat64())
		}
		batch := &model.Batch{Run: run, Writer: model.WriterID{1}, Attempt: 1, First: uint64(from + 1), Last: uint64(from + 50_000), Groups: []model.RowGroup{g}}
		if _, err := e.Append(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
		if err := e.Flush(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func folderSize(b *testing.B, dir string) (n int64) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		b.Fatal(err)
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			b.Fatal(err)
		}
		n += info.Size()
	}
	return n
}

// BenchmarkIdleSeries measures the heap that a series costs whose run was read:
// "shared" where a batch has many, "alone" where every series is logged by
// itself and has a row group of its own.
func BenchmarkIdleSeries(b *testing.B) {
	n := 200_000
	if testing.Short() {
		n = 20_000
	}
	for name, perGroup := range map[string]int{"shared": 1_000, "alone": 1} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				dir := b.TempDir()
				fillWide(b, dir, n, perGroup)
				start := time.Now()
				e, err := local.Open(b.Context(), local.Config{Dir: dir})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(time.Since(start).Microseconds())/1000, "open-ms")
				before := liveHeap()
				b.ReportMetric(float64(listAll(b, e, n).Microseconds())/1000, "first-list-ms")
				b.ReportMetric(float64(liveHeap()-before)/float64(n), "B/series")
				if err := e.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func listAll(b *testing.B, e *local.Engine, n int) time.Duration {
	b.Helper()
	start := time.Now()
	list, _, err := e.ListSeries(b.Context(), model.RunID{1}, store.SeriesFilter{Limit: n})
	if err != nil || len(list) != n || list[n-1].Count != 2 {
		b.Fatal(len(list), err)
	}
	return time.Since(start)
}

func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func fillWide(b *testing.B, dir string, n, perGroup int) {
	b.Helper()
	e, err := local.Open(b.Context(), local.Config{Dir: dir})
	if err != nil {
		b.Fatal(err)
	}
	run := model.RunID{1}
	if err := e.PutAttempt(b.Context(), run, model.Attempt{Number: 1}); err != nil {
		b.Fatal(err)
	}
	seq := uint64(0)
	for from := 0; from < n; from += 10_000 {
		batch := &model.Batch{Run: run, Writer: model.WriterID{1}, Attempt: 1, First: seq + 1}
		for at := from; at < from+10_000; at += perGroup {
			g := model.RowGroup{Axes: []model.AxisColumn{{Axis: model.AxisStep, Values: []int64{0, 1}}}, TimeNs: []int64{int64(2 * at), int64(2*at + 1)}, Seq: []uint64{seq + 1, seq + 2}}
			seq += 2
			for i := at; i < at+perGroup; i++ {
				g.Columns = append(g.Columns, model.Column{Series: model.NewSeriesKey(fmt.Sprintf("layer_%03d/metric_%07d", i/1000, i), "", nil), Kind: model.KindFloat, Floats: []float64{1, float64(i)}})
			}
			batch.Groups = append(batch.Groups, g)
		}
		batch.Last = seq
		if _, err := e.Append(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	if err := e.Close(); err != nil {
		b.Fatal(err)
	}
}
