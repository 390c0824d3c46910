package local_test

import (
	"strings"
	"sync/atomic"
	"syscall"
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
func flushes(t *testing.T, e *local.Engine, runs, segments, rows int, at func(n, i int) int64) {
	t.Helper()
	for n := range segments {
		for run := range runs {
			id := model.RunID{1, byte(run >> 8), byte(run)}
			if n == 0 {
				if err := e.PutAttempt(t.Context(), id, model.Attempt{Number: 1}); err != nil {
					t.Fatal(err)
				}
			}
			g := model.RowGroup{Unique: model.UniqueTime, Columns: []model.Column{{Series: model.NewSeriesKey("x", "", nil), Kind: model.KindFloat}}}
			for i := range rows {
				g.TimeNs, g.Columns[0].Floats = append(g.TimeNs, at(n, i)), append(g.Columns[0].Floats, float64(i%977)/7)
			}
			must(e.Append(t.Context(), &model.Batch{Run: id, Writer: model.WriterID(id), Attempt: 1, Groups: []model.RowGroup{g}}))
		}
		if err := e.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// comparing is the processor time, and the bytes read, of the first look at a store after a
// start, when all of its segments are new to it. Nothing is merged for another reason.
func comparing(t *testing.T, runs, segments, rows int, at func(n, i int) int64) (took time.Duration, read int64) {
	t.Helper()
	fs := &reading{FS: hasty{wal.OS{}}}
	config := local.Config{Dir: t.TempDir(), FS: fs, CompactFiles: 1 << 20}
	e := must(local.Open(t.Context(), config))
	flushes(t, e, runs, segments, rows, at)
	took = time.Hour
	for range 3 {
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		e = must(local.Open(t.Context(), config))
		before, since := fs.bytes.Load(), processor(t)
		if err := e.Compact(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		took, read = min(took, processor(t)-since), fs.bytes.Load()-before
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	return took, read
}

func processor(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestComparingGrowsLinearly: what a start spends on the search for repeats grows with the
// runs and with the segments, not with their pairs.
func TestComparingGrowsLinearly(t *testing.T) {
	const factor, limit = 8, 20 // 64 is quadratic
	after := func(n, i int) int64 { return int64(n)*1_000_000 + int64(i) }
	across := func(n, i int) int64 { return int64(i)*1_000_000 + int64(n) } // at the same times, no two the same
	for name, grown := range map[string]struct {
		runs, segments, more int // more of the first, or of the second
		at                   func(n, i int) int64
	}{
		"runs":                           {runs: 50, segments: 60, more: 0, at: after},
		"segments":                       {runs: 50, segments: 60, more: 1, at: after},
		"segments that lie at all times": {runs: 1, segments: 60, more: 1, at: across},
		"runs that lie at all times":     {runs: 50, segments: 10, more: 0, at: across},
	} {
		t.Run(name, func(t *testing.T) {
			runs, segments := grown.runs*factor, grown.segments
			if grown.more == 1 {
				runs, segments = grown.runs, grown.segments*factor
			}
			small, few := comparing(t, grown.runs, grown.segments, 5, grown.at)
			large, many := comparing(t, runs, segments, 5, grown.at)
			t.Logf("%v and %d bytes read of %d runs in %d segments; %v and %d bytes of %d in %d", small, few, grown.runs, grown.segments, large, many, runs, segments)
			if large > limit*max(small, 2*time.Millisecond) || many > limit*max(few, 4096) {
				t.Errorf("%d times as many: %v and %d bytes, not %v and %d", factor, large, many, small, few)
			}
		})
	}
}

// TestLeavingOutGrowsLinearly: what it costs to keep points once that came twice grows with
// their number.
func TestLeavingOutGrowsLinearly(t *testing.T) {
	const rows, factor, limit = 20_000, 8, 20
	leavingOut := func(rows int) (took time.Duration) {
		took = time.Hour
		for range 3 {
			e := must(local.Open(t.Context(), local.Config{Dir: t.TempDir(), FS: hasty{wal.OS{}}}))
			flushes(t, e, 1, 2, rows, func(_, i int) int64 { return int64(i)*1_000_000 + int64(i*7919%977) })
			since := processor(t)
			if err := e.Compact(t.Context(), false); err != nil {
				t.Fatal(err)
			}
			took = min(took, processor(t)-since)
			if got := e.Stats().Points; got != uint64(rows) {
				t.Errorf("%d points are kept of %d", got, rows)
			}
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
		}
		return took
	}
	small, large := leavingOut(rows), leavingOut(factor*rows)
	t.Logf("%v for %d rows, %v for %d", small, rows, large, factor*rows)
	if large > limit*max(small, 2*time.Millisecond) {
		t.Errorf("%d times as many rows take %v, not %v", factor, large, small)
	}
}
