package local_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

// reading counts what is read of segments.
type reading struct {
	wal.FS
	bytes atomic.Int64
}

type readingFile struct {
	wal.File
	of *reading
}

func (r *reading) Open(name string, create bool) (wal.File, error) {
	f, err := r.FS.Open(name, create)
	if err != nil || !strings.Contains(name, ".kgs") {
		return f, err
	}
	return readingFile{f, r}, nil
}

func (f readingFile) ReadAt(b []byte, off int64) (int, error) {
	f.of.bytes.Add(int64(len(b)))
	return f.File.ReadAt(b, off)
}

// flushes makes a store of runs that all have rows in each of so many segments; at says
// when row i of segment n is.
func flushes(b *testing.B, e *local.Engine, runs, segments, rows int, at func(n, i int) int64) {
	b.Helper()
	for n := range segments {
		for run := range runs {
			id := model.RunID{1, byte(run >> 8), byte(run)}
			if n == 0 {
				if err := e.PutAttempt(b.Context(), id, model.Attempt{Number: 1}); err != nil {
					b.Fatal(err)
				}
			}
			g := model.RowGroup{Unique: model.UniqueTime, Columns: []model.Column{{Series: model.NewSeriesKey("x", "", nil), Kind: model.KindFloat}}}
			for i := range rows {
				g.TimeNs, g.Columns[0].Floats = append(g.TimeNs, at(n, i)), append(g.Columns[0].Floats, float64(i%977)/7)
			}
			must(e.Append(b.Context(), &model.Batch{Run: id, Writer: model.WriterID(id), Attempt: 1, Groups: []model.RowGroup{g}}))
		}
		if err := e.Flush(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// comparing is the processor time, and the bytes read, of the first look at a store after a
// start, when all of its segments are new to it. Nothing is merged for another reason.
func comparing(b *testing.B, runs, segments, rows int, at func(n, i int) int64) (took time.Duration, read int64) {
	b.Helper()
	fs := &reading{FS: hasty{wal.OS{}}}
	config := local.Config{Dir: b.TempDir(), FS: fs, CompactFiles: 1 << 20}
	e := must(local.Open(b.Context(), config))
	flushes(b, e, runs, segments, rows, at)
	took = time.Hour
	for range 3 {
		if err := e.Close(); err != nil {
			b.Fatal(err)
		}
		e = must(local.Open(b.Context(), config))
		before, since := fs.bytes.Load(), cpuTime(b)
		if err := e.Compact(b.Context(), false); err != nil {
			b.Fatal(err)
		}
		took, read = min(took, cpuTime(b)-since), fs.bytes.Load()-before
	}
	if err := e.Close(); err != nil {
		b.Fatal(err)
	}
	return took, read
}

// BenchmarkComparing is the processor time that a start spends on the search for repeats, for
// each run of each segment: the same for 8 times as many runs or segments.
func BenchmarkComparing(b *testing.B) {
	after := func(n, i int) int64 { return int64(n)*1_000_000 + int64(i) }
	across := func(n, i int) int64 { return int64(i)*1_000_000 + int64(n) } // at the same times, no two the same
	for _, c := range []struct {
		name           string
		runs, segments int
		at             func(n, i int) int64
	}{
		{"runs=50/segments=60", 50, 60, after},
		{"runs=400/segments=60", 400, 60, after},
		{"runs=50/segments=480", 50, 480, after},
		{"at all times/runs=1/segments=60", 1, 60, across},
		{"at all times/runs=1/segments=480", 1, 480, across},
		{"at all times/runs=50/segments=10", 50, 10, across},
		{"at all times/runs=400/segments=10", 400, 10, across},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				took, read := comparing(b, c.runs, c.segments, 5, c.at)
				b.ReportMetric(float64(took)/float64(c.runs*c.segments), "ns/run·segment")
				b.ReportMetric(float64(read), "bytes-read")
			}
		})
	}
}

// BenchmarkLeavingOut is the processor time to keep points once that came twice, a point.
func BenchmarkLeavingOut(b *testing.B) {
	for _, rows := range []int{20_000, 160_000} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			for b.Loop() {
				e := must(local.Open(b.Context(), local.Config{Dir: b.TempDir(), FS: hasty{wal.OS{}}}))
				flushes(b, e, 1, 2, rows, func(_, i int) int64 { return int64(i)*1_000_000 + int64(i*7919%977) })
				since := cpuTime(b)
				if err := e.Compact(b.Context(), false); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(cpuTime(b)-since)/float64(rows), "ns/row")
				if got := e.Stats().Points; got != uint64(rows) {
					b.Errorf("%d points are kept of %d", got, rows)
				}
				if err := e.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
