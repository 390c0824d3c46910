package local_test

import (
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

// counting counts what is written to segments, and how large they are.
type counting struct {
	wal.FS
	mu      sync.Mutex
	written int64
	peak    int64
	sizes   map[string]int64 // of the segments that are there, unfinished ones too
}

func newCounting() *counting { return &counting{FS: hasty{wal.OS{}}, sizes: map[string]int64{}} }

type countingFile struct {
	wal.File
	of   *counting
	name string
}

func (c *counting) Open(name string, create bool) (wal.File, error) {
	f, err := c.FS.Open(name, create)
	if err != nil || !strings.Contains(name, ".kgs") {
		return f, err
	}
	return countingFile{f, c, filepath.Base(name)}, nil
}

func (f countingFile) WriteAt(b []byte, off int64) (int, error) {
	f.of.mu.Lock()
	f.of.written += int64(len(b))
	f.of.sizes[f.name] = max(f.of.sizes[f.name], off+int64(len(b)))
	f.of.mu.Unlock()
	sum, _ := f.of.there()
	f.of.peak = max(f.of.peak, sum)
	return f.File.WriteAt(b, off)
}

func (c *counting) Remove(name string) error {
	c.mu.Lock()
	delete(c.sizes, filepath.Base(name))
	c.mu.Unlock()
	return c.FS.Remove(name)
}

func (c *counting) Rename(from, to string) error {
	c.mu.Lock()
	if size, ok := c.sizes[filepath.Base(from)]; ok {
		c.sizes[filepath.Base(to)] = size
		delete(c.sizes, filepath.Base(from))
	}
	c.mu.Unlock()
	return c.FS.Rename(from, to)
}

// there is the bytes of all segments, and of the largest.
func (c *counting) there() (sum, largest int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, size := range c.sizes {
		sum, largest = sum+size, max(largest, size)
	}
	return sum, largest
}

// noisy appends rows of a run: a wandering value at steps from on.
func noisy(t *testing.T, e *local.Engine, run model.RunID, random *rand.Rand, from, rows int) {
	t.Helper()
	g := model.RowGroup{Axes: []model.AxisColumn{{Axis: model.AxisStep}}}
	col := model.Column{Series: model.NewSeriesKey("loss", "", nil), Kind: model.KindFloat}
	for i := from; i < from+rows; i++ {
		g.Axes[0].Values, g.TimeNs = append(g.Axes[0].Values, int64(i)), append(g.TimeNs, int64(i)*1_000_000)
		g.Seq, col.Floats = append(g.Seq, uint64(i+1)), append(col.Floats, random.NormFloat64())
	}
	g.Columns = []model.Column{col}
	must(e.Append(t.Context(), &model.Batch{Run: run, Writer: model.WriterID(run), Attempt: 1, First: uint64(from + 1), Last: uint64(from + rows), Groups: []model.RowGroup{g}}))
}

// TestBytesWritten ingests much in small flushes and deletes some of it. A count of every
// write says that merges keep what is written below four times what is kept, that no segment
// is above the largest size, and that a merge needs no more than a fifth of the store. The
// store says the same of itself, also after a restart.
func TestBytesWritten(t *testing.T) {
	for _, test := range []struct {
		name    string
		flushes int
		rows    int // of a flush
		deletes bool
	}{
		{"full groups", 700, 512, false},
		{"small flushes", 1300, 40, false},
		{"old runs are deleted", 1000, 256, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			const largest = 256 << 10
			fs, dir := newCounting(), t.TempDir()
			config := local.Config{Dir: dir, FS: fs, SegmentBytes: largest}
			e := must(local.Open(t.Context(), config))
			random := rand.New(rand.NewPCG(1, 2))
			run, from := model.RunID{}, 0
			freed := int64(0)
			for n := range test.flushes {
				if n%100 == 0 {
					run, from = model.RunID{1, byte(n / 100)}, 0
					if err := e.PutAttempt(t.Context(), run, model.Attempt{Number: 1}); err != nil {
						t.Fatal(err)
					}
				}
				noisy(t, e, run, random, from, test.rows)
				from += test.rows
				if err := e.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
				if test.deletes && n%100 == 99 && n > 500 {
					before := e.LiveBytes()
					if err := e.DeleteRun(t.Context(), model.RunID{1, byte(n/100 - 5)}); err != nil {
						t.Fatal(err)
					}
					freed += before - e.LiveBytes()
				}
				before, _ := fs.there()
				fs.peak = before
				if err := e.Compact(t.Context(), false); err != nil {
					t.Fatal(err)
				}
				if need := fs.peak - before; need > max(before/5, largest/16)+4096 {
					t.Fatalf("flush %d: a merge needs %d bytes beside a store of %d", n, need, before)
				}
			}
			kept, most := fs.there()
			if most > largest {
				t.Errorf("a segment has %d bytes", most)
			}
			told := e.Stats()
			t.Logf("%d bytes written, %d there, %d freed (%.2f); told %d and %d; %d segments", fs.written, kept, freed, float64(fs.written)/float64(kept+freed), told.WrittenBytes, told.KeptBytes, len(fs.sizes))
			if float64(fs.written) > 4*float64(kept+freed) {
				t.Errorf("%d bytes were written for %d that are kept", fs.written, kept+freed)
			}
			if off := told.WrittenBytes - fs.written; off > fs.written/1000 || off < -fs.written/1000 {
				t.Errorf("the store says that it wrote %d bytes, not %d", told.WrittenBytes, fs.written)
			}
			if got := told.KeptBytes; got < kept+freed/2 || got > kept+freed+freed/10 {
				t.Errorf("the store says that it kept %d bytes, not %d", got, kept+freed)
			}
			written := fs.written
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			e = must(local.Open(t.Context(), config))
			defer e.Close()
			last := fs.written - written // the stop may flush, too
			if again := e.Stats(); again.WrittenBytes != told.WrittenBytes+last || again.KeptBytes != told.KeptBytes+last {
				t.Errorf("after a restart it says %d and %d, not %d and %d", again.WrittenBytes, again.KeptBytes, told.WrittenBytes, told.KeptBytes)
			}
		})
	}
}
