package spool

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kymogram/kymogram/internal/model"
)

// await waits until ok says so.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain for " + what)
		}
	}
}

// fill appends points of 40 bytes from step on.
func fill(t *testing.T, w *Writer, s *Series, step, n int) {
	t.Helper()
	for i := range n {
		if err := w.Point(s, FlagStep, int64(step+i), 1, 0); err != nil {
			t.Fatal(err)
		}
	}
}

const firstQuarter, firstWhole = firstSegment / 4 / 40, firstSegment / 40

func (w *Writer) aheadReady() bool { return w.ahead.ready.Load() != nil }

// TestAhead: the segment that was made while the first filled becomes the second.
func TestAhead(t *testing.T) {
	w := testWriter(t, testFolder(t), 1, WriterOptions{})
	s := testSeries(t, w, "m")
	path := filepath.Join(w.dir, ".00000001.next")
	fill(t, w, s, 0, firstQuarter-10)
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("made before a quarter was used: %v", err)
	}
	fill(t, w, s, firstQuarter-10, 20)
	await(t, "the next segment", w.aheadReady)
	made, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(doc, make([]byte, 2*firstSegment)) {
		t.Errorf("it has %d bytes, not zeros only: %v", len(doc), err)
	}
	fill(t, w, s, firstQuarter+10, firstWhole-firstQuarter)
	used, err := os.Stat(segmentPath(w.dir, 1))
	if err != nil || !os.SameFile(made, used) {
		t.Errorf("the second segment is another file: %v", err)
	}
	if got := naiveRead(t, w.dir); len(got) != firstWhole+10 {
		t.Errorf("%d points of %d", len(got), firstWhole+10)
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestAheadTooSmall: a record that does not fit what was made ahead gets a
// segment that it fits, and nothing else is left.
func TestAheadTooSmall(t *testing.T) {
	w := testWriter(t, testFolder(t), 1, WriterOptions{})
	s := testSeries(t, w, "m")
	fill(t, w, s, 0, firstQuarter+10)
	await(t, "the next segment", w.aheadReady)
	const rows = 100_000 // 800 KB
	if err := w.Block([]*Series{s}, linearBlock([]*Series{s}, rows, 1_000_000, 7)); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(segmentPath(w.dir, 1)); err != nil || info.Size() != 1<<20 {
		t.Errorf("%v %v", info, err)
	}
	if got := naiveRead(t, w.dir); len(got) != rows+firstQuarter+10 {
		t.Errorf("%d points", len(got))
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if files, _ := filepath.Glob(filepath.Join(w.dir, ".*")); len(files) > 0 {
		t.Errorf("%v are left", files)
	}
}

// TestAheadCounts: what a writer made ahead is part of what the cap bounds.
func TestAheadCounts(t *testing.T) {
	f := testFolder(t)
	w := testWriter(t, f, 1, WriterOptions{})
	fill(t, w, testSeries(t, w, "m"), 0, firstQuarter+10)
	await(t, "the next segment", w.aheadReady)
	if used, err := f.Used(); err != nil || used != 3*firstSegment {
		t.Errorf("%d bytes, want %d: %v", used, 3*firstSegment, err)
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if used, err := f.Used(); err != nil || used != firstSegment {
		t.Errorf("%d bytes after close, want %d: %v", used, firstSegment, err)
	}
}

// TestNotPublished: where the next segment cannot have its name, the points wait
// in memory and then follow in order.
func TestNotPublished(t *testing.T) {
	now := time.Unix(1, 0)
	w := testWriter(t, testFolder(t), 1, WriterOptions{Now: func() time.Time { return now }})
	s := testSeries(t, w, "m")
	if err := os.Mkdir(segmentPath(w.dir, 1), 0o700); err != nil {
		t.Fatal(err)
	}
	fill(t, w, s, 0, firstQuarter+10)
	await(t, "the next segment", w.aheadReady)
	const total = firstWhole + 500
	fill(t, w, s, firstQuarter+10, total-firstQuarter-10)
	if over := w.Drain(); over.Waiting == 0 || over.Dropped > 0 {
		t.Errorf("%+v", over)
	}
	if err := os.Remove(segmentPath(w.dir, 1)); err != nil {
		t.Fatal(err)
	}
	if over := w.Drain(); over.Waiting > 0 {
		t.Errorf("%+v", over)
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got := steps(readAll(t, w.dir, w.ID, 1).records)
	for i, step := range got {
		if step != int64(i) {
			t.Fatalf("step %d at place %d", step, i)
		}
	}
	if len(got) != total {
		t.Errorf("%d points of %d", len(got), total)
	}
}

// TestLeftAhead: segments that a dead writer of Go or Python had not published are
// not read, whatever is in them, and go; a living writer's stay. They have no header
// of their own yet.
func TestLeftAhead(t *testing.T) {
	f := testFolder(t)
	w := testWriter(t, f, 1, WriterOptions{})
	s := testSeries(t, w, "m")
	fill(t, w, s, 0, 100)
	whole, err := os.ReadFile(segmentPath(w.dir, 0))
	if err != nil {
		t.Fatal(err)
	}
	h := Header{Writer: w.ID, Number: 2, First: w.Last() + 1, CreatedNs: 1}
	copy(whole, h.encode())
	names := []string{".00000001.next", ".00000001.tmp", ".00000009.next", ".x.next"}
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(w.dir, name), whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	left := func() (n int) {
		for _, name := range names {
			if _, err := os.Stat(filepath.Join(w.dir, name)); err == nil {
				n++
			}
		}
		return n
	}
	if got := steps(readAll(t, w.dir, w.ID, 1).records); len(got) != 100 || left() != 4 {
		t.Errorf("while it lives: %d points, %d files", len(got), left())
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got, _ := tailRead(t, w.dir, w.ID); len(got) != 100 || left() != 4 {
		t.Errorf("a look only: %d points, %d files", len(got), left())
	}
	if got := steps(readAll(t, w.dir, w.ID, 1).records); len(got) != 100 || left() != 0 {
		t.Errorf("after its end: %d points, %d files", len(got), left())
	}
}

// TestUnpublished: a segment gets its header just before its name. One that has the
// header and not the name lost that to a power loss, with the records behind it.
func TestUnpublished(t *testing.T) {
	for _, name := range []string{".00000001.next", ".00000001.tmp"} {
		for _, taken := range []bool{false, true} {
			dir := t.TempDir()
			id := goldenHeader().Writer
			first := segmentOf(t, 0, 1, 0, 3)
			binary.LittleEndian.PutUint32(first[firstPoint(t)+3*40:], sealedMark)
			writeFile(t, segmentPath(dir, 0), first)
			writeFile(t, filepath.Join(dir, name), segmentOf(t, 1, 5, 10, 12))
			want := []int64{0, 1, 2, 10, 11}
			if taken { // by the one that its writer made in its place
				writeFile(t, segmentPath(dir, 1), segmentOf(t, 1, 5, 20, 22))
				want = []int64{0, 1, 2, 20, 21}
			}
			got := readAll(t, dir, id, 1)
			if diff := cmp.Diff(want, steps(got.records)); diff != "" || got.progress != End || len(got.skipped) != 0 {
				t.Errorf("%s, taken %v: %v, skipped %v (-want +got)\n%s", name, taken, got.progress, got.skipped, diff)
			}
			if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
				t.Errorf("%s, taken %v: %v, %v", name, taken, entries, err)
			}
		}
	}
}

// TestCloseWhileLogging: a call that returned without an error is in the spool,
// whatever Close does meanwhile, and nothing of the writer is left.
func TestCloseWhileLogging(t *testing.T) {
	for round := range 10 {
		f := testFolder(t)
		w := testWriter(t, f, 1, WriterOptions{})
		var group sync.WaitGroup
		returned := make([]int, 64)
		for k := range returned {
			s := testSeries(t, w, fmt.Sprintf("w%d", k))
			group.Go(func() {
				for i := 0; ; i++ {
					runtime.Gosched() // many calls begin, not many points
					err := w.Point(s, FlagStep, int64(i), 1, uint64(i))
					if errors.Is(err, ErrClosed) {
						returned[k] = i
						return
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		time.Sleep(time.Duration(round) * time.Millisecond)
		if over, err := w.Close(); err != nil || over.Waiting > 0 || over.Dropped > 0 {
			t.Errorf("%+v %v", over, err)
		}
		group.Wait()
		got := naiveRead(t, w.dir)
		want := 0
		for k, n := range returned {
			want += n
			for i := range n {
				if got[cell{fmt.Sprintf("w%d", k), int64(i), uint64(i)}] != 1 {
					t.Fatalf("point %d of %d of goroutine %d is not there", i, n, k)
				}
			}
		}
		if len(got) != want {
			t.Errorf("%d points are there, %d had returned", len(got), want)
		}
		if files, _ := filepath.Glob(filepath.Join(w.dir, ".*")); len(files) > 0 {
			t.Errorf("%v are left", files)
		}
	}
}

// TestNoAllocations: also while garbage is collected all the time, and over
// several segments.
func TestNoAllocations(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	w := testWriter(t, testFolder(t), 1, WriterOptions{})
	s := testSeries(t, w, "m")
	block := linearBlock([]*Series{s}, 1000, 0, 0)
	series := []*Series{s}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
			}
		}
	}()
	point := testing.AllocsPerRun(100_000, func() { fill(t, w, s, 1, 1) })
	many := testing.AllocsPerRun(1000, func() {
		if err := w.Block(series, block); err != nil {
			t.Fatal(err)
		}
	})
	close(stop)
	<-done
	if point > 0 || many > 0 {
		t.Errorf("%v allocations a point, %v a block", point, many)
	}
}

// TestManyWriters: a thousand writers in one process leave no goroutine, no file
// and no map.
func TestManyWriters(t *testing.T) {
	f := testFolder(t)
	use := func(n int) {
		var id model.WriterID
		id[0], id[1], id[2] = 7, byte(n), byte(n>>8)
		w, err := Create(f, "", model.OpenRequest{Writer: id}, WriterOptions{Cap: 1 << 40})
		if err != nil {
			t.Fatal(err)
		}
		s := testSeries(t, w, "m")
		points := 1
		if n%10 == 0 {
			points = firstQuarter * (1 + n/10%6) // some have a segment made ahead, some use it
		}
		fill(t, w, s, 0, points)
		if _, err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(w.Status().Close(), f.Remove(id)); err != nil {
			t.Fatal(err)
		}
	}
	use(0)
	before := holds(t)
	for n := range 1000 {
		use(n + 1)
	}
	after := holds(t)
	for i := range after {
		if after[i] > before[i] { // fewer: what other tests left was collected
			t.Errorf("goroutines, files, maps: %v, before %v", after, before)
		}
	}
}

// holds is what the process holds: goroutines, open files and maps of the spool.
func holds(t *testing.T) (out [3]int) {
	t.Helper()
	runtime.GC()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skip(err)
	}
	return [3]int{runtime.NumGoroutine(), len(files), bytes.Count(maps, []byte(aheadSuffix)) + bytes.Count(maps, []byte(segmentSuffix))}
}
