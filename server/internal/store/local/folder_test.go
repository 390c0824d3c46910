package local_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/internal/wal/faultfs"
	"github.com/kymogram/kymogram/server/internal/store/local"
	"github.com/kymogram/kymogram/server/internal/store/storetest"
)

// copyFolder copies a folder that may be in use to a disk of its own.
func copyFolder(t testing.TB, from *faultfs.FS, floor uint64) *faultfs.FS {
	t.Helper()
	f, err := local.OpenFolder(context.Background(), from, "/data", "/marks")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	to := faultfs.New()
	err = f.CopyTo(context.Background(), floor, func(name string, size int64, r io.Reader) error {
		data, err := io.ReadAll(r)
		if err != nil || int64(len(data)) != size {
			return errors.Join(err, errors.New(name+" has another size"))
		}
		file, err := to.Open(filepath.Join("/data", name), true)
		if err == nil {
			_, err = file.WriteAt(data, 0)
		}
		return errors.Join(err, file.Sync(), to.SyncDir(filepath.Dir(filepath.Join("/data", name))))
	})
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// TestCopyEqualsSource compares every point, mark and statistic.
func TestCopyEqualsSource(t *testing.T) {
	alone(t)
	fs := faultfs.New()
	e, err := local.Open(t.Context(), config(fs))
	if err != nil {
		t.Fatal(err)
	}
	if err := storetest.WriteGolden(t.Context(), upkept(t, e)); err != nil {
		t.Fatal(err)
	}
	for _, floor := range []uint64{0, 7, 5000} {
		restored := copyFolder(t, fs, floor)
		twice := copyFolder(t, restored, floor)
		for _, disk := range []*faultfs.FS{restored, twice} {
			e, err := local.Open(t.Context(), config(disk))
			if err != nil {
				t.Fatal(err)
			}
			h := upkept(t, e)
			if _, err := storetest.CheckGolden(t.Context(), h); err != nil {
				t.Fatal(err)
			}
			updates := 0
			for m, err := range e.PendingMeta(t.Context()) {
				if err != nil || m.LSN == 0 {
					t.Fatal(m, err)
				}
				updates++
			}
			if updates != 19 { // five times four, less the one of the run that was deleted before
				t.Fatalf("%d updates wait for the catalog, want 19", updates)
			}
			run, w := model.RunID{9}, model.WriterID{9}
			if err := e.PutAttempt(t.Context(), run, model.Attempt{Number: 1}); err != nil {
				t.Fatal(err)
			}
			ack, err := e.Append(t.Context(), oneRow(run, w, 1))
			if err != nil || ack.LSN <= floor {
				t.Fatalf("LSN %d is not above %d: %v", ack.LSN, floor, err)
			}
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			if e, err = local.Open(t.Context(), config(disk)); err != nil {
				t.Fatal(err)
			}
			prefix(t, e, run, w, 1)
		}
	}
}

// TestCopyOfARunningEngine copies while points come, are flushed and merged: a
// copy has at least what was acknowledged when it began.
func TestCopyOfARunningEngine(t *testing.T) {
	fs := faultfs.New()
	e, err := local.Open(t.Context(), config(fs))
	if err != nil {
		t.Fatal(err)
	}
	run, w := model.RunID{1}, model.WriterID{1}
	if err := e.PutAttempt(t.Context(), run, model.Attempt{Number: 1}); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var mu sync.Mutex
	acked := uint64(0)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			ack, err := e.Append(t.Context(), oneRow(run, w, acked+1))
			if err != nil {
				t.Error(err)
				return
			}
			e.ReleaseMeta(ack.LSN)
			mu.Lock()
			acked = ack.Mark
			mu.Unlock()
			if acked%5 == 0 {
				if err := errors.Join(e.Flush(t.Context()), e.Compact(t.Context(), acked%20 == 0)); err != nil {
					t.Error(err)
				}
			}
		}
	})
	for copies, least := 0, uint64(0); copies < 40 || least < 100; copies++ {
		mu.Lock()
		least = acked
		mu.Unlock()
		restored, err := local.Open(t.Context(), config(copyFolder(t, fs, 0)))
		if err != nil {
			t.Fatal(err)
		}
		prefix(t, restored, run, w, least)
		if s := restored.Stats(); s.Quarantined != 0 {
			t.Fatalf("a copy has %d damaged places", s.Quarantined)
		}
		if err := restored.Close(); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	wg.Wait()
}

// TestInspectFindsEveryFlip flips one bit anywhere in a folder: either inspection
// finds it or nothing that is read has changed.
func TestInspectFindsEveryFlip(t *testing.T) {
	alone(t)
	random := rand.New(rand.NewPCG(8, 9))
	base := faultfs.New()
	e, err := local.Open(t.Context(), config(base))
	if err != nil {
		t.Fatal(err)
	}
	if err := storetest.WriteGolden(t.Context(), upkept(t, e)); err != nil {
		t.Fatal(err)
	}
	whole := inspect(t, base)
	if len(whole.Damage) != 0 || whole.Deleted != 1 || len(whole.Runs) != 2 || whole.Points == 0 || whole.Torn != 0 {
		t.Fatalf("%+v", whole)
	}
	const flips = 600
	missed := 0
	for range flips {
		fs := base.Crash(random)
		names := fs.Names()
		name := names[random.IntN(len(names))]
		size := 0
		fs.Corrupt(name, func(b []byte) []byte {
			if size = len(b); size > 0 {
				b[random.IntN(len(b))] ^= 1 << random.IntN(8)
			}
			return b
		})
		if size == 0 || filepath.Base(name) == "VERSION" {
			continue
		}
		got := inspect(t, fs)
		if len(got.Damage) > 0 || got.Torn > 0 {
			continue
		}
		if filepath.Base(name) != "TIP" { // a damaged one says nothing, as a missing one
			missed++ // padding between records, which nothing reads
		}
		e, err := local.Open(t.Context(), config(fs))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := storetest.CheckGolden(t.Context(), upkept(t, e)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if missed > flips/10 {
		t.Fatalf("%d of %d flips were not found", missed, flips)
	}
}

func inspect(t *testing.T, fs wal.FS) *local.Inventory {
	t.Helper()
	f, err := local.OpenFolder(t.Context(), fs, "/data", "/marks")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	read := int64(0)
	out, err := f.Inspect(t.Context(), true, func(n int64) { read += n })
	if err != nil {
		t.Fatal(err)
	}
	if read > f.Bytes() {
		t.Fatalf("%d bytes read of %d", read, f.Bytes())
	}
	return out
}
