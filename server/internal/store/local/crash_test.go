package local_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal/faultfs"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

var key = model.NewSeriesKey("loss", "", nil)

// oneRow is record seq of a writer: step seq-1 holds seq.
func oneRow(run model.RunID, w model.WriterID, seq uint64) *model.Batch {
	return &model.Batch{Run: run, Writer: w, Attempt: 1, First: seq, Last: seq, Groups: []model.RowGroup{{
		Axes: []model.AxisColumn{{Axis: model.AxisStep, Values: []int64{int64(seq) - 1}}}, TimeNs: []int64{int64(seq)}, Seq: []uint64{seq},
		Columns: []model.Column{{Series: key, Kind: model.KindFloat, Floats: []float64{float64(seq)}}},
	}}, Updates: []model.Update{{Op: model.OpAddTags, Seq: seq, Tags: []string{fmt.Sprint(seq)}}}}
}

// prefix reads the points of a writer and fails unless they are 1…n, n ≥ least,
// with the mark n and the updates after the released ones.
func prefix(t *testing.T, e *local.Engine, run model.RunID, w model.WriterID, least uint64) uint64 {
	t.Helper()
	mark, err := e.Mark(t.Context(), w)
	if err != nil || mark < least {
		t.Fatalf("mark is %d (%v), %d was acknowledged", mark, err, least)
	}
	if mark == 0 {
		return 0
	}
	rows, err := e.Scan(t.Context(), store.ScanRequest{Run: run, Axis: model.AxisStep, From: math.MinInt64, To: math.MaxInt64, Limit: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if uint64(len(rows.TimeNs)) != mark {
		t.Fatalf("%d points, mark %d", len(rows.TimeNs), mark)
	}
	for i, v := range rows.Values.Floats {
		if v != float64(i+1) || rows.Seq[i] != uint64(i+1) {
			t.Fatalf("row %d is %v (%d)", i, v, rows.Seq[i])
		}
	}
	return mark
}

// TestCrashAnywhere stops the disk at every operation of appends, flushes,
// compactions and recoveries, crashes, and opens what is left.
func TestCrashAnywhere(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	fs := faultfs.New()
	run, w := model.RunID{1}, model.WriterID{1}
	type clone struct {
		fs    *faultfs.FS
		acked uint64
	}
	acked := uint64(0)
	var clones []clone
	e, err := local.Open(t.Context(), config(fs))
	if err != nil {
		t.Fatal(err)
	}
	if err := e.PutAttempt(t.Context(), run, model.Attempt{Number: 1}); err != nil {
		t.Fatal(err)
	}
	// Every operation from a chosen one on fails, then the power goes.
	for stop := range 160 {
		fs2 := fs.Crash(random)
		e2, err := local.Open(t.Context(), config(fs2))
		if err != nil {
			t.Fatal(err)
		}
		ops := 0
		fs2.Hook(func(faultfs.Op, string) error {
			if ops++; ops > stop%40 {
				return unix.EIO
			}
			return nil
		})
		done := acked
		for i := range 12 {
			ack, err := e2.Append(t.Context(), oneRow(run, w, done+1))
			if err != nil {
				break
			}
			done = ack.Mark
			switch (i + stop) % 4 {
			case 1:
				_ = e2.Flush(t.Context())
			case 3:
				_ = e2.Compact(t.Context(), stop%2 == 0)
			}
		}
		_ = e2.Close()
		fs2.Hook(nil)
		clones = append(clones, clone{fs2.Crash(random), done})
		if stop%5 == 0 { // the original goes on as well
			if _, err := e.Append(t.Context(), oneRow(run, w, acked+1)); err != nil {
				t.Fatal(err)
			}
			acked++
			if stop%15 == 0 {
				if err := e.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for _, c := range clones {
		c.fs = crashWhileRecovering(t, c.fs, random)
		e, err := local.Open(t.Context(), config(c.fs))
		if err != nil {
			t.Fatal(err)
		}
		mark := prefix(t, e, run, w, c.acked)
		if q := e.Stats().Quarantined; q != 0 {
			t.Fatalf("a crash left %d damaged ranges", q)
		}
		updates := 0
		for m, err := range e.PendingMeta(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			updates++
			if m.Updates[0].Seq != uint64(updates) {
				t.Fatalf("update %d is of record %d", updates, m.Updates[0].Seq)
			}
		}
		if uint64(updates) != mark {
			t.Fatalf("%d updates, mark %d", updates, mark)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func crashWhileRecovering(t *testing.T, fs *faultfs.FS, random *rand.Rand) *faultfs.FS {
	ops, stop := 0, random.IntN(20)
	fs.Hook(func(faultfs.Op, string) error {
		if ops++; ops > stop {
			return unix.EIO
		}
		return nil
	})
	if e, err := local.Open(t.Context(), config(fs)); err == nil {
		_ = e.Close()
	}
	return fs.Crash(random)
}

// TestDamage flips bits and cuts files. Points may be missing, and counted, but
// none is wrong, none is invented, and nothing panics.
func TestDamage(t *testing.T) {
	alone(t)
	random := rand.New(rand.NewPCG(5, 6))
	run, w := model.RunID{1}, model.WriterID{1}
	base := faultfs.New()
	e, err := local.Open(t.Context(), config(base))
	if err != nil {
		t.Fatal(err)
	}
	if err := e.PutAttempt(t.Context(), run, model.Attempt{Number: 1}); err != nil {
		t.Fatal(err)
	}
	const n = 60
	for seq := range uint64(n) {
		if _, err := e.Append(t.Context(), oneRow(run, w, seq+1)); err != nil {
			t.Fatal(err)
		}
		if seq%20 == 9 {
			if err := e.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 400 {
		fs := base.Crash(random)
		names := fs.Names()
		name := names[random.IntN(len(names))]
		if strings.HasSuffix(name, "LOCK") || strings.HasSuffix(name, "VERSION") {
			continue
		}
		what, known := name, false
		fs.Corrupt(name, func(b []byte) []byte {
			if len(b) == 0 {
				return b
			}
			if random.IntN(4) == 0 {
				return b[:random.IntN(len(b))]
			}
			at := random.IntN(len(b))
			b[at] ^= 1 << random.IntN(8)
			// A segment ends with its directory (TestDamagedDirectory).
			what = fmt.Sprintf("%s, byte %d of %d", name, at, len(b))
			known = strings.HasSuffix(name, ".wal") || at >= 8 && at < len(b)-120
			return b
		})
		damaged(t, fs, run, w, n, what, known)
	}
}

func damaged(t *testing.T, fs *faultfs.FS, run model.RunID, w model.WriterID, n int, what string, known bool) {
	t.Helper()
	e, err := local.Open(t.Context(), config(fs))
	if err != nil {
		t.Fatalf("a damaged file keeps the store from opening: %v", err)
	}
	defer e.Close()
	list, _, err := e.ListSeries(t.Context(), run, store.SeriesFilter{Limit: 10})
	if err != nil || len(list) == 0 {
		return // everything that names the run was in the damaged place
	}
	rows, err := e.Scan(t.Context(), store.ScanRequest{Run: run, Axis: model.AxisStep, From: math.MinInt64, To: math.MaxInt64, Limit: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range rows.Values.Floats {
		if v != float64(rows.Seq[i]) || rows.Axes[0].Values[i] != int64(rows.Seq[i])-1 || i > 0 && rows.Seq[i] <= rows.Seq[i-1] {
			t.Fatalf("row %d is wrong: step %d, value %v, sequence %d", i, rows.Axes[0].Values[i], v, rows.Seq[i])
		}
	}
	torn := false
	for _, name := range fs.Names() {
		torn = torn || strings.Contains(name, "quarantine")
	}
	if len(rows.TimeNs) != n && e.Stats().Quarantined == 0 && !torn && !lostTail(t, e, w, n) {
		t.Fatalf("%d of %d points are gone and nothing says so", n-len(rows.TimeNs), n)
	}
	if told, stored := inLedger(t, e, run, w, n); known && (told != n-len(rows.TimeNs) || stored != len(rows.TimeNs)) {
		t.Fatalf("%s: %d of %d points are there, the run's ledger tells of %d, and of %d missing", what, len(rows.TimeNs), n, stored, told)
	}
	_, _ = e.Buckets(t.Context(), store.BucketsRequest{Run: run, Axis: model.AxisStep, From: math.MinInt64, To: math.MaxInt64, N: 10})
	_ = e.Flush(t.Context())
	_ = e.Compact(t.Context(), true)
	again, err := e.Scan(t.Context(), store.ScanRequest{Run: run, Axis: model.AxisStep, From: math.MinInt64, To: math.MaxInt64, Limit: 1 << 20})
	if err != nil || len(again.TimeNs) != len(rows.TimeNs) {
		t.Fatalf("upkeep changed what is readable: %d rows became %d (%v)", len(rows.TimeNs), len(again.TimeNs), err)
	}
}

// inLedger is how many of the points the run's ledger says are damaged, or will
// be sent again; every record has one point.
func inLedger(t *testing.T, e *local.Engine, run model.RunID, w model.WriterID, n int) (told, stored int) {
	t.Helper()
	stats, err := e.RunStats(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range stats.Damaged {
		told += int(d.Points)
	}
	for _, s := range stats.Skipped {
		if s.Reason != "damaged" {
			t.Fatalf("%+v was not sent", s)
		}
		if told += int(s.Points); s.Points == 0 {
			told += int(s.Last - s.First + 1)
		}
	}
	mark, err := e.Mark(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	return told + n - int(mark), int(stats.Stored)
}

// lostTail: a log cut at a record's end looks like one that was never longer;
// then the mark says so, and the writer sends again.
func lostTail(t *testing.T, e *local.Engine, w model.WriterID, n int) bool {
	mark, err := e.Mark(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	return mark < uint64(n)
}

func TestDiskFull(t *testing.T) {
	fs := faultfs.New()
	e, err := local.Open(t.Context(), config(fs))
	if err != nil {
		t.Fatal(err)
	}
	run, w := model.RunID{1}, model.WriterID{1}
	if err := e.PutAttempt(t.Context(), run, model.Attempt{Number: 1}); err != nil {
		t.Fatal(err)
	}
	fs.Limit(fs.Used() + 3000)
	seq := uint64(1)
	for ; ; seq++ {
		if _, err = e.Append(t.Context(), oneRow(run, w, seq)); err != nil {
			break
		}
		if seq == 5 {
			if err := e.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if model.CodeOf(err) != model.CodeDiskFull || !e.Stats().DiskFull {
		t.Fatal(err)
	}
	if err := e.Flush(t.Context()); err == nil {
		t.Fatal("a flush found room")
	}
	prefix(t, e, run, w, seq-1)
	fs.Limit(0)
	for range 10 {
		if _, err := e.Append(t.Context(), oneRow(run, w, seq)); err != nil {
			t.Fatal(err)
		}
		seq++
	}
	if err := e.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	prefix(t, e, run, w, seq-1)
	fs = fs.Crash(rand.New(rand.NewPCG(1, 1)))
	if e, err = local.Open(t.Context(), config(fs)); err != nil {
		t.Fatal(err)
	}
	prefix(t, e, run, w, seq-1)
}

func TestFailedSyncPoisons(t *testing.T) {
	fs := faultfs.New()
	e, err := local.Open(t.Context(), config(fs))
	if err != nil {
		t.Fatal(err)
	}
	run, w := model.RunID{1}, model.WriterID{1}
	if err := errors.Join(e.PutAttempt(t.Context(), run, model.Attempt{Number: 1})); err != nil {
		t.Fatal(err)
	}
	failed := false
	fs.Hook(func(op faultfs.Op, name string) error {
		if op == faultfs.OpSync && !failed && strings.HasSuffix(name, ".wal") {
			failed = true
			return unix.EIO
		}
		return nil
	})
	for seq := range uint64(3) { // only the first fsync fails; none after it may be believed
		if _, err := e.Append(t.Context(), oneRow(run, w, seq+1)); model.CodeOf(err) != model.CodeUnavailable {
			t.Fatal(err)
		}
	}
	if _, err := e.Mark(t.Context(), w); model.CodeOf(err) != model.CodeUnavailable || !e.Stats().Poisoned {
		t.Fatal(err)
	}
	// What may be missing from the log may not be in a segment either.
	if err := e.Flush(t.Context()); model.CodeOf(err) != model.CodeUnavailable {
		t.Fatalf("flush of what was not synced: %v", err)
	}
	_ = e.Close()
	if e, err = local.Open(t.Context(), config(fs)); err != nil {
		t.Fatal(err)
	}
	mark := prefix(t, e, run, w, 0)
	if _, err := e.Append(t.Context(), oneRow(run, w, mark+1)); err != nil {
		t.Fatal(err)
	}
}

// TestUnknownSegmentPoisons: the folder could not be synced after a segment got
// its name, so its points may not be written a second time.
func TestUnknownSegmentPoisons(t *testing.T) {
	for _, bad := range []faultfs.Op{faultfs.OpSyncDir, faultfs.OpRename} {
		fs := faultfs.New()
		e, err := local.Open(t.Context(), config(fs))
		if err != nil {
			t.Fatal(err)
		}
		run, w := model.RunID{1}, model.WriterID{1}
		if err := e.PutAttempt(t.Context(), run, model.Attempt{Number: 1}); err != nil {
			t.Fatal(err)
		}
		for seq := range uint64(5) {
			if _, err := e.Append(t.Context(), oneRow(run, w, seq+1)); err != nil {
				t.Fatal(err)
			}
		}
		fails := 1
		fs.Hook(func(op faultfs.Op, _ string) error {
			if op == bad && fails > 0 {
				fails--
				return unix.EIO
			}
			return nil
		})
		if err := e.Flush(t.Context()); err == nil {
			t.Fatal("the flush did not fail")
		}
		if err := e.Flush(t.Context()); model.CodeOf(err) != model.CodeUnavailable {
			t.Fatal(err)
		}
		if _, err := e.Append(t.Context(), oneRow(run, w, 6)); model.CodeOf(err) != model.CodeUnavailable || !e.Stats().Poisoned {
			t.Fatal(err)
		}
		prefix(t, e, run, w, 5)
		_ = e.Close()
		if e, err = local.Open(t.Context(), config(fs)); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Append(t.Context(), oneRow(run, w, 6)); err != nil {
			t.Fatal(err)
		}
		if err := e.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		prefix(t, e, run, w, 6)
	}
}

func TestFolderIsGuarded(t *testing.T) {
	dir := t.TempDir()
	e, err := local.Open(t.Context(), local.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := local.Open(t.Context(), local.Config{Dir: dir}); model.CodeOf(err) != model.CodeUnavailable {
		t.Fatalf("opened twice: %v", err)
	}
	if err := errors.Join(e.Close(), e.Close()); err != nil {
		t.Fatal(err)
	}
	fs := faultfs.New()
	if e, err = local.Open(t.Context(), config(fs)); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	newer := strconv.Itoa(local.Version + 1)
	fs.Corrupt("/data/VERSION", func([]byte) []byte { return []byte(newer + "\n") })
	if _, err := local.Open(t.Context(), config(fs)); model.CodeOf(err) != model.CodeInvalid || !strings.Contains(err.Error(), "version "+newer) {
		t.Fatalf("a newer folder: %v", err)
	}
}

// TestConcurrentUse appends, reads and maintains at once; -race watches.
func TestConcurrentUse(t *testing.T) {
	cfg := config(faultfs.New())
	cfg.FlushRows, cfg.WALSegmentBytes = 50, 1<<16
	e, err := local.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- e.Run(ctx) }()
	run := model.RunID{1}
	if err := e.PutAttempt(ctx, run, model.Attempt{Number: 1}); err != nil {
		t.Fatal(err)
	}
	const writers, each = 4, 200
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for seq := range uint64(each) {
				if _, err := e.Append(ctx, oneRow(run, model.WriterID{byte(i + 1)}, seq+1)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Go(func() {
		for range 50 {
			if _, _, err := e.ListSeries(ctx, run, store.SeriesFilter{Limit: 10}); err != nil {
				t.Error(err)
			}
			if err := e.Flush(ctx); err != nil {
				t.Error(err)
			}
			if err := e.Compact(ctx, false); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	stop()
	if err := <-ran; err != nil {
		t.Fatal(err)
	}
	list, _, err := e.ListSeries(t.Context(), run, store.SeriesFilter{Limit: 10})
	if err != nil || len(list) != 1 || list[0].Count != writers*each {
		t.Fatalf("%+v %v", list, err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}
