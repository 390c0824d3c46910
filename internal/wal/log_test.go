package wal_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/internal/wal/faultfs"
)

func open(t testing.TB, fs wal.FS, segment int64) (*wal.Log, []string, []wal.Damage) {
	t.Helper()
	var got []string
	l, damage, err := wal.Open(fs, "/wal", wal.Options{SegmentBytes: segment}, func(lsn uint64, b []byte) error {
		got = append(got, fmt.Sprintf("%d:%s", lsn, b))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return l, got, damage
}

func TestRecordsComeBackInOrder(t *testing.T) {
	for _, fs := range []wal.FS{faultfs.New(), wal.OS{}} {
		dir := "/wal"
		if _, ok := fs.(wal.OS); ok {
			dir = t.TempDir()
		}
		var want []string
		for range 4 {
			var got []string
			l, damage, err := wal.Open(fs, dir, wal.Options{SegmentBytes: 100}, func(lsn uint64, b []byte) error {
				got = append(got, fmt.Sprintf("%d:%s", lsn, b))
				return nil
			})
			if err != nil || len(damage) > 0 || !slices.Equal(got, want) {
				t.Fatalf("%v %v: %v, want %v", err, damage, got, want)
			}
			for i := range 5 {
				lsn, err := l.Append(t.Context(), []byte(fmt.Sprint("record ", i)))
				if err != nil || int(lsn) != len(want)+1 {
					t.Fatal(lsn, err)
				}
				want = append(want, fmt.Sprintf("%d:record %d", lsn, i))
			}
			if err := errors.Join(l.Close(), l.Close()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestCallersShareSyncs holds the first fsync until all have written: the rest
// then needs one more.
func TestCallersShareSyncs(t *testing.T) {
	slow := &slowFS{FS: faultfs.New(), release: make(chan struct{})}
	l, _, _ := open(t, slow, 1<<20)
	slow.armed.Store(true)
	const callers = 50
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			if _, err := l.Append(t.Context(), []byte{byte(i)}); err != nil {
				t.Error(err)
			}
		})
	}
	for l.State().Written < callers { // the state is polled: writes do not wait for the sync
		runtime.Gosched()
	}
	close(slow.release)
	wg.Wait()
	if n := slow.syncs.Load(); n > 2 {
		t.Fatalf("%d callers took %d syncs", callers, n)
	}
}

type slowFS struct {
	wal.FS
	armed   atomic.Bool
	release chan struct{}
	syncs   atomic.Int64
}

type slowFile struct {
	wal.File
	fs *slowFS
}

func (s *slowFS) Open(name string, create bool) (wal.File, error) {
	f, err := s.FS.Open(name, create)
	return slowFile{f, s}, err
}

func (f slowFile) Sync() error {
	if f.fs.armed.Load() {
		f.fs.syncs.Add(1)
		<-f.fs.release
	}
	return f.File.Sync()
}

// TestCrashKeepsWhatWasAcked drives appends and crashes; what was acked is there,
// nothing is twice, nothing is from nowhere.
func TestCrashKeepsWhatWasAcked(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		fs := faultfs.New()
		var acked []string // acked, then what a crash happened to keep
		for range rapid.IntRange(1, 6).Draw(rt, "crashes") {
			l, got, damage := open(t, fs, 200)
			if len(got) < len(acked) || !slices.Equal(got[:len(acked)], acked) {
				rt.Fatalf("%v came back, %v was acked", got, acked)
			}
			for _, d := range damage {
				if !d.Torn {
					rt.Fatalf("a crash left damage: %+v", d)
				}
			}
			acked = got
			for i := range rapid.IntRange(0, 8).Draw(rt, "records") {
				body := fmt.Sprintf("%d-%d", len(acked), i)
				lsn, err := l.Write([]byte(body))
				if err != nil {
					rt.Fatal(err)
				}
				if rapid.Bool().Draw(rt, "sync") {
					if err := l.Wait(t.Context(), lsn); err != nil {
						rt.Fatal(err)
					}
				}
				_ = body
			}
			synced := l.State().Synced
			fs = fs.Crash(random)
			check, all, _ := open(t, fs.Crash(random), 200)
			if uint64(len(all)) < synced {
				rt.Fatalf("%d records after a crash, %d were synced", len(all), synced)
			}
			acked = all[:synced]
			_ = check.Close()
		}
	})
}

func TestDamageInTheMiddleIsSkipped(t *testing.T) {
	for at := range 5 * 32 {
		fs := faultfs.New()
		l, _, _ := open(t, fs, 1<<20)
		for i := range 6 {
			if _, err := l.Append(t.Context(), []byte{'a' + byte(i)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		fs.Corrupt(fs.Names()[0], func(b []byte) []byte { b[at] ^= 0x40; return b })
		l, got, damage := open(t, fs, 1<<20)
		padding := at%32 >= 25 // zeros behind the payload are not summed
		if padding && len(got) == 6 {
			continue
		}
		if len(got) != 5 || len(damage) != 1 || damage[0].Torn || damage[0].Bytes != 32 || damage[0].Records != 1 {
			t.Fatalf("byte %d: %v %+v", at, got, damage)
		}
		lsn, err := l.Append(t.Context(), []byte("on"))
		if err != nil || lsn != 7 {
			t.Fatal(lsn, err)
		}
		if err := l.Release(7); err != nil {
			t.Fatal(err)
		}
		names := fs.Names()
		if !slices.ContainsFunc(names, func(n string) bool { return n == "/wal/quarantine/00000000000000000001.wal" }) {
			t.Fatalf("the damaged file is gone: %v", names)
		}
	}
}

func TestTornTailIsCutAndKept(t *testing.T) {
	fs := faultfs.New()
	l, _, _ := open(t, fs, 1<<20)
	for range 3 {
		if _, err := l.Append(t.Context(), []byte("0123456789")); err != nil {
			t.Fatal(err)
		}
	}
	_ = l.Close()
	fs.Corrupt(fs.Names()[0], func(b []byte) []byte { return b[:len(b)-9] })
	l, got, damage := open(t, fs, 1<<20)
	if len(got) != 2 || len(damage) != 1 || !damage[0].Torn || len(fs.Names()) != 2 {
		t.Fatal(got, damage, fs.Names())
	}
	if lsn, err := l.Append(t.Context(), []byte("x")); err != nil || lsn != 3 {
		t.Fatal(lsn, err)
	}
	_ = l.Close()
	if _, got, damage = open(t, fs, 1<<20); len(got) != 3 || len(damage) != 0 {
		t.Fatal(got, damage)
	}
}

func TestFullDiskLeavesTheLogWhole(t *testing.T) {
	fs := faultfs.New()
	l, _, _ := open(t, fs, 1<<20)
	n := 0
	fs.Limit(500)
	var err error
	for ; err == nil; n++ {
		_, err = l.Append(t.Context(), []byte("0123456789"))
	}
	n--
	if !errors.Is(err, wal.ErrDiskFull) || !l.State().DiskFull || l.State().Poisoned {
		t.Fatal(err)
	}
	fs.Limit(0)
	if _, err := l.Append(t.Context(), []byte("again")); err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	if _, got, damage := open(t, fs, 1<<20); len(got) != n+1 || len(damage) != 0 {
		t.Fatal(len(got), n, damage)
	}
}

func TestFailedSyncIsNeverRetried(t *testing.T) {
	fs := faultfs.New()
	l, _, _ := open(t, fs, 1<<20)
	fails := 1
	fs.Hook(func(op faultfs.Op, _ string) error {
		if op == faultfs.OpSync && fails > 0 {
			fails--
			return unix.EIO
		}
		return nil
	})
	lsn, err := l.Append(t.Context(), []byte("x"))
	if !errors.Is(err, wal.ErrPoisoned) {
		t.Fatal(err)
	}
	if err := l.Wait(t.Context(), max(lsn, 1)); !errors.Is(err, wal.ErrPoisoned) {
		t.Fatal(err)
	}
	if _, err := l.Write([]byte("y")); !errors.Is(err, wal.ErrPoisoned) {
		t.Fatal(err)
	}
}

func TestReleaseKeepsWhatIsNeeded(t *testing.T) {
	fs := faultfs.New()
	l, _, _ := open(t, fs, 64)
	for range 10 {
		if _, err := l.Append(t.Context(), []byte("0123456789")); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Release(6); err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	_, got, _ := open(t, fs, 64)
	if len(got) < 5 || len(got) > 7 || got[len(got)-1] != "10:0123456789" {
		t.Fatal(got)
	}
}

func FuzzOpen(f *testing.F) {
	fs := faultfs.New()
	l, _, _ := open(f, fs, 1<<20)
	for i := range 3 {
		if _, err := l.Append(f.Context(), []byte(fmt.Sprint("record", i))); err != nil {
			f.Fatal(err)
		}
	}
	_ = l.Close()
	fs.Corrupt(fs.Names()[0], func(b []byte) []byte { f.Add(slices.Clone(b)); return b })
	f.Fuzz(func(t *testing.T, b []byte) {
		fs := faultfs.New()
		file, err := fs.Open("/wal/00000000000000000001.wal", true)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteAt(b, 0); err != nil {
			t.Fatal(err)
		}
		inspected := 0
		named := wal.NamedFile{Name: wal.FileName(1), Size: int64(len(b)), ReaderAt: bytes.NewReader(b)}
		if _, err := wal.Inspect([]wal.NamedFile{named}, func(uint64, []byte) error { inspected++; return nil }); err != nil {
			t.Fatal(err)
		}
		l, got, _ := open(t, fs, 1<<20)
		if size, _ := wal.Whole(b); inspected != len(got) || size > int64(len(b)) {
			t.Fatalf("%d records inspected, %d replayed; %d of %d bytes are whole", inspected, len(got), size, len(b))
		}
		if _, err := l.Append(t.Context(), []byte("more")); err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
		if _, again, _ := open(t, fs, 1<<20); len(again) != len(got)+1 {
			t.Fatalf("%d records became %d", len(got), len(again))
		}
	})
}
