package spool

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// smallDisk is a spool on a tmpfs of its own.
func smallDisk(t *testing.T, options string) *Folder {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("mount: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	f, err := OpenFolder(filepath.Join(dir, "spool"))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestDiskFull: a full disk is no error and no SIGBUS; the points wait in memory.
func TestDiskFull(t *testing.T) {
	f := smallDisk(t, "size=2m")
	now := time.Unix(1, 0)
	w := testWriter(t, f, 1, WriterOptions{Now: func() time.Time { return now }})
	s := testSeries(t, w, "m")
	const total = 60_000 // 2.4 MB
	for i := range total {
		if err := w.Point(s, FlagStep, int64(i), 1, 0); err != nil {
			t.Fatal(err)
		}
	}
	over := w.Drain()
	if over.Waiting == 0 || over.Dropped != 0 {
		t.Fatalf("a disk of 2 MiB took %d points: %+v", total, over)
	}
	got := 0
	tail, err := OpenTail(w.dir, w.ID, 1, false)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 { // read, let go, make room
		got += len(steps(drainTail(t, tail).records))
		if err := Prune(w.dir, w.ID, tail.Seq()-1); err != nil {
			t.Fatal(err)
		}
		over = w.Drain()
	}
	tail.Close()
	if got != total || over.Waiting != 0 {
		t.Errorf("%d of %d points arrived, %+v", got, total, over)
	}
	if _, err := w.Close(); err != nil {
		t.Error(err)
	}
	w.Status().Close()
}

// TestDiskFullAtEveryStep: whichever of making, reserving and publishing a
// segment finds no room, the points wait in memory and all arrive in order.
func TestDiskFullAtEveryStep(t *testing.T) {
	for _, options := range []string{
		"size=600k", "size=1000k", "size=1600k", // the second, third, … segment
		"size=8m", "size=12m", // between ample room and none: made ahead, then not
		"size=64m,nr_inodes=16", "size=64m,nr_inodes=17", // no name for a file
	} {
		t.Run(options, func(t *testing.T) { fillDisk(t, smallDisk(t, options)) })
	}
}

func fillDisk(t *testing.T, f *Folder) {
	now := time.Unix(1, 0)
	w := testWriter(t, f, 1, WriterOptions{Now: func() time.Time { return now }})
	defer w.Status().Close()
	s := testSeries(t, w, "m")
	const most = 400_000 // 16 MB
	total := 0
	full := func() bool {
		if w.Drain().Waiting == 0 {
			return false
		}
		w.ahead.group.Wait() // a segment that is being made beside the calls may have had the last room
		return w.Drain().Waiting > 0
	}
	for ; total < most && !full(); total++ {
		if err := w.Point(s, FlagStep, int64(total), 1, 0); err != nil {
			t.Fatal(err)
		}
	}
	for range 1000 {
		if err := w.Point(s, FlagStep, int64(total), 1, 0); err != nil {
			t.Fatal(err)
		}
		total++
	}
	if over := w.Drain(); over.Waiting == 0 || over.Dropped != 0 {
		t.Fatalf("%d points filled nothing: %+v", total, over)
	}
	tail, err := OpenTail(w.dir, w.ID, 1, false)
	if err != nil {
		t.Fatal(err)
	}
	defer tail.Close()
	want := int64(0)
	for range 10 {
		for _, step := range steps(drainTail(t, tail).records) {
			if step != want {
				t.Fatalf("step %d came after %d", step, want-1)
			}
			want++
		}
		if err := Prune(w.dir, w.ID, tail.Seq()-1); err != nil {
			t.Fatal(err)
		}
		w.Drain()
	}
	if want != int64(total) {
		t.Errorf("%d of %d points arrived", want, total)
	}
	if over, err := w.Close(); err != nil || over.Waiting > 0 {
		t.Errorf("%+v %v", over, err)
	}
}

// TestFileLimit: where no file may be as large as the next segment, it is made
// smaller, and nobody is killed by SIGXFSZ.
func TestFileLimit(t *testing.T) {
	const points = 70_000
	f := testFolder(t)
	cmd := exec.Command("sh", "-c", `ulimit -f 1200 && exec "$0"`, os.Args[0]) // of 512 bytes
	cmd.Env = append(os.Environ(), childFolder+"="+f.Path, childPoints+"="+strconv.Itoa(points))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	ids, err := f.Writers()
	if err != nil || len(ids) != 1 {
		t.Fatal(ids, err)
	}
	if got := naiveRead(t, f.WriterPath(ids[0])); len(got) != points {
		t.Errorf("%d points of %d", len(got), points)
	}
	numbers, err := segmentNumbers(f.WriterPath(ids[0]))
	if err != nil || len(numbers) < 6 { // 256 KiB, then 512 each
		t.Errorf("segments %v %v", numbers, err)
	}
}

// TestKilledWhilePreparing: what a kill leaves of the next segment is never read,
// and goes when a deliverer finds the writer dead.
func TestKilledWhilePreparing(t *testing.T) {
	left := 0
	for range 6 {
		f := testFolder(t)
		cmd, pipe := startLogging(t, f)
		go func() {
			for len(aheadFiles(t, f)) == 0 {
				runtime.Gosched()
			}
			cmd.Process.Kill()
		}()
		returned := lastReturned(pipe)
		cmd.Wait()
		found := len(aheadFiles(t, f))
		left += found
		checkKilled(t, f, returned)
		if now := len(aheadFiles(t, f)); now != found {
			t.Errorf("a reader that changes nothing removed %d files", found-now)
		}
		ids, err := f.Writers()
		if err != nil || len(ids) != 1 {
			t.Fatal(ids, err)
		}
		readAll(t, f.WriterPath(ids[0]), ids[0], 1)
		if files := aheadFiles(t, f); len(files) > 0 {
			t.Errorf("%v are left", files)
		}
	}
	if left == 0 {
		t.Error("no kill met a segment that was made ahead")
	}
}

func aheadFiles(t *testing.T, f *Folder) []string {
	files, err := filepath.Glob(filepath.Join(f.Path, "writers", "*", ".*"+aheadSuffix))
	if err != nil {
		t.Error(err)
	}
	return files
}
