package local_test

import (
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/internal/wal/faultfs"
	"github.com/kymogram/kymogram/server/internal/store/local"
	"github.com/kymogram/kymogram/server/internal/store/storetest"
)

var (
	cloneCount = flag.Int("clones", 150, "crash clones that TestCrashClones opens")
	scriptOps  = flag.Int("script-ops", 60, "operations of the history in which TestErrorAtEveryOperation fails each")
)

// clone is a disk after a crash and what it may hold.
type clone struct {
	fs     *faultfs.FS
	moment storetest.Moment
}

// TestCrashClones cuts the power before random operations of random histories:
// appends, flushes, merges, deletions, migration from the first format, and the
// recovery from an earlier cut. What was acknowledged is there, once, and right.
func TestCrashClones(t *testing.T) {
	random := rand.New(rand.NewPCG(11, 12))
	opened, recoveries, migrations := 0, 0, 0
	count, each := *cloneCount, 40
	if testing.Short() { // as the race detector runs it, to which every clone is the same; both formats stay
		count, each = min(count, 10), 3
	}
	for seed := uint64(1); opened < count; seed++ {
		script, fs := storetest.NewScript(seed), faultfs.New()
		old := seed%5 == 1
		if old {
			var err error
			if script, err = storetest.AfterGolden(t.Context(), seed); err != nil {
				t.Fatal(err)
			}
			fs = onDisk(t, "testdata/format-1")
		}
		var clones []clone
		fs.CloneAt(chance(random, 3), func(c *faultfs.FS) { clones = append(clones, clone{c, script.Moment()}) })
		history(t, fs, script, 25)
		fs.CloneAt(nil, nil)
		random.Shuffle(len(clones), func(i, j int) { clones[i], clones[j] = clones[j], clones[i] })
		cuts := min(len(clones), each)
		for i := 0; i < cuts && opened < count; i++ {
			c := clones[i]
			c.fs.CloneAt(chance(random, 8), func(again *faultfs.FS) { // and clones of clones
				if cuts < 2*each {
					clones = slices.Insert(clones, cuts, clone{again, c.moment})
					cuts++
					recoveries++
				}
			})
			if opened++; old {
				migrations++
			}
			survives(t, seed, c)
		}
	}
	t.Logf("%d crash clones opened, %d cut while recovering, %d of folders of format 1", opened, recoveries, migrations)
}

// chance chooses one operation in n.
func chance(random *rand.Rand, n int) func(faultfs.Op) *rand.Rand {
	return func(faultfs.Op) *rand.Rand {
		if random.IntN(n) == 0 {
			return random
		}
		return nil
	}
}

// onDisk puts a folder of this package on a disk of its own.
func onDisk(t *testing.T, folder string) *faultfs.FS {
	t.Helper()
	fs := faultfs.New()
	err := filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name := "/data" + strings.TrimPrefix(filepath.ToSlash(path), folder)
		if _, err := fs.Open(name, true); err != nil {
			return err
		}
		fs.Corrupt(name, func([]byte) []byte { return data })
		return fs.SyncDir(filepath.Dir(name))
	})
	if err != nil {
		t.Fatal(err)
	}
	return fs
}

// history runs a script, closing and opening now and then.
func history(t *testing.T, fs *faultfs.FS, script *storetest.Script, steps int) {
	t.Helper()
	h := mustOpen(t, fs)
	for i := range steps {
		if err := script.Step(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		if i%10 == 9 {
			if err := h.Engine.Close(); err != nil {
				t.Fatal(err)
			}
			h = mustOpen(t, fs)
		}
	}
	if err := h.Engine.Close(); err != nil {
		t.Fatal(err)
	}
}

func mustOpen(t *testing.T, fs *faultfs.FS) *storetest.Harness {
	t.Helper()
	e, err := local.Open(t.Context(), config(fs))
	if err != nil {
		t.Fatal(err)
	}
	return upkept(t, e)
}

func survives(t *testing.T, seed uint64, c clone) {
	t.Helper()
	h := mustOpen(t, c.fs)
	if err := c.moment.Check(t.Context(), h); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	if q := h.Engine.Stats().Quarantined; q != 0 {
		t.Fatalf("seed %d: a crash left %d damaged places", seed, q)
	}
	if err := h.Engine.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestErrorAtEveryOperation runs one history again and again and fails each of its
// operations once, or from then on, or for want of space. An error is reported or
// changes nothing; a step that was acknowledged is there after the next start.
func TestErrorAtEveryOperation(t *testing.T) {
	alone(t)
	total := 0
	count := faultfs.New()
	count.Hook(func(faultfs.Op, string) error { total++; return nil })
	steps := 0
	for script, h := storetest.NewScript(7), mustOpen(t, count); total < *scriptOps; steps++ {
		if err := script.Step(t.Context(), h); err != nil {
			t.Fatal(err)
		}
	}
	refused := 0
	for _, fault := range []struct {
		name  string
		err   error
		count int
	}{{"once", unix.EIO, 1}, {"from then on", unix.EIO, 1 << 30}, {"disk full", unix.ENOSPC, 3}} {
		for at := range total {
			if !failing(t, at, fault.count, fault.err, steps) {
				refused++
			}
		}
	}
	if refused < total/4 {
		t.Fatalf("only %d of %d faults were felt", refused, 3*total)
	}
	t.Logf("%d steps with %d operations, each failed in 3 ways: %d times a step was refused", steps, total, refused)
}

// failing reports whether every step went through all the same.
func failing(t *testing.T, at, times int, fault error, steps int) (through bool) {
	t.Helper()
	fs := faultfs.New()
	ops, failed, looking := 0, 0, false
	fs.Hook(func(op faultfs.Op, _ string) error {
		if looking {
			return nil
		}
		ops++
		space := op == faultfs.OpWrite || op == faultfs.OpOpen || op == faultfs.OpSyncDir
		if ops > at && failed < times && (!wal.IsDiskFull(fault) || space) {
			failed++
			return fault
		}
		return nil
	})
	script := storetest.NewScript(7)
	through = true
	if e, err := local.Open(t.Context(), config(fs)); err == nil {
		h := upkept(t, e)
		through = faulty(t, script, h, steps, fault, &looking)
		_ = e.Close()
	}
	fs.Hook(nil)
	h := mustOpen(t, fs.Crash(rand.New(rand.NewPCG(uint64(at), 1))))
	defer h.Engine.Close()
	if err := script.Moment().Check(t.Context(), h); err != nil {
		t.Fatalf("operation %d, %v %d times: %v", at, fault, times, err)
	}
	return through
}

func faulty(t *testing.T, script *storetest.Script, h *storetest.Harness, steps int, fault error, looking *bool) (through bool) {
	t.Helper()
	for range steps {
		before := script.Moment()
		err := script.Step(t.Context(), h)
		if err == nil {
			continue
		}
		if script.Moment() == before { // a flush or a merge failed: nothing has changed, tried again later
			*looking = true
			if err := before.Check(t.Context(), h); err != nil && !h.Engine.Stats().Poisoned {
				t.Fatalf("after a failed flush or merge: %v", err)
			}
			*looking = false
			continue
		}
		if wal.IsDiskFull(fault) && model.CodeOf(err) != model.CodeDiskFull && model.CodeOf(err) != model.CodeUnavailable {
			t.Fatalf("a full disk is reported as %v", err)
		}
		return false
	}
	return true
}

// TestUnreadableSegmentStopsTheStart: what the disk does not give may come back.
func TestUnreadableSegmentStopsTheStart(t *testing.T) {
	fs, script := faultfs.New(), storetest.NewScript(3)
	history(t, fs, script, 12)
	fs.Hook(func(op faultfs.Op, name string) error {
		if op == faultfs.OpRead && strings.HasSuffix(name, ".kgs") {
			return unix.EIO
		}
		return nil
	})
	if _, err := local.Open(t.Context(), config(fs)); model.CodeOf(err) != model.CodeUnavailable || !strings.Contains(err.Error(), ".kgs") {
		t.Fatalf("opened without what the disk did not give: %v", err)
	}
	fs.Hook(nil)
	h := mustOpen(t, fs)
	defer h.Engine.Close()
	if err := script.Moment().Check(t.Context(), h); err != nil {
		t.Fatal(err)
	}
}

// TestReplacedSegmentsStayReplaced: files of a merge that could not be removed are
// named by the next merge as well, so that they do not come back without the one
// that replaced them.
func TestReplacedSegmentsStayReplaced(t *testing.T) {
	for _, op := range []faultfs.Op{faultfs.OpRemove, faultfs.OpSyncDir} {
		fs := faultfs.New()
		e, err := local.Open(t.Context(), config(fs))
		if err != nil {
			t.Fatal(err)
		}
		run, w := model.RunID{1}, model.WriterID{1}
		if err := e.PutAttempt(t.Context(), run, model.Attempt{Number: 1}); err != nil {
			t.Fatal(err)
		}
		failures := 0
		for seq := uint64(1); seq <= 4; seq++ {
			if _, err := e.Append(t.Context(), oneRow(run, w, seq)); err != nil {
				t.Fatal(err)
			}
			if err := e.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			removing := false
			fs.Hook(func(now faultfs.Op, name string) error {
				removing = removing || now == faultfs.OpRemove && strings.HasSuffix(name, ".kgs")
				if removing && now == op && seq == 2 && failures == 0 {
					failures++
					return unix.EIO
				}
				return nil
			})
			if err := e.Compact(t.Context(), true); (err == nil) != (seq != 2) {
				t.Fatalf("merge %d: %v", seq, err)
			}
			fs.Hook(nil)
			// The merge that failed had done its work.
			prefix(t, e, run, w, seq)
		}
		for range 20 {
			again, err := local.Open(t.Context(), config(fs.Crash(rand.New(rand.NewPCG(1, 2)))))
			if err != nil {
				t.Fatal(err)
			}
			prefix(t, again, run, w, 4)
			stats, err := again.RunStats(t.Context(), run)
			if err != nil || stats.Stored != 4 {
				t.Fatalf("%d points are stored, 4 were logged: %v", stats.Stored, err)
			}
		}
	}
}
