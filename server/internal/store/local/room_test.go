package local_test

import (
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

// TestMemoryIsBounded writes 64 MB of doubles that nothing compresses, by many
// runs, while nobody flushes: the writes themselves must.
func TestMemoryIsBounded(t *testing.T) {
	e, err := local.Open(t.Context(), local.Config{Dir: t.TempDir(), MemoryBytes: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	random := rand.New(rand.NewPCG(1, 2))
	most, base := uint64(0), heap()
	for round := range 16 {
		for n := range 32 {
			l := newBacklog(model.RunID{byte(n + 1)}, 16, 100)
			l.writer, l.at = model.WriterID{byte(n + 1)}, round*1000
			if err := e.PutAttempt(t.Context(), l.run, model.Attempt{Number: 1}); err != nil {
				t.Fatal(err)
			}
			b := l.batch(1000)
			for c := range b.Groups[0].Columns {
				for i := range b.Groups[0].Columns[c].Floats {
					b.Groups[0].Columns[c].Floats[i] = random.Float64()
				}
			}
			if _, err := e.Append(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		}
		most = max(most, heap())
	}
	// 10 MiB of 64, slices that grow to the size of a flush, and what the log holds.
	if held := int64(most) - int64(base); held > 24<<20 {
		t.Errorf("%d MiB in memory", held>>20)
	}
	if got := e.Stats().Points; got != 16*32*1000*16 {
		t.Errorf("%d points", got)
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// stalling lets the files of segments wait before they are synced.
type stalling struct {
	wal.FS
	mu   sync.Mutex
	gate chan struct{} // nil: open
	met  chan struct{}
}

type stallingFile struct {
	wal.File
	fs   *stalling
	name string
}

func (s *stalling) Open(name string, create bool) (wal.File, error) {
	f, err := s.FS.Open(name, create)
	return &stallingFile{f, s, name}, err
}

// Sync waits once, in the first file that comes to a closed gate.
func (f *stallingFile) Sync() error {
	f.fs.mu.Lock()
	gate := f.fs.gate
	if gate != nil && strings.HasSuffix(f.name, ".tmp") {
		f.fs.gate = nil
		close(f.fs.met)
	} else {
		gate = nil
	}
	f.fs.mu.Unlock()
	if gate != nil {
		<-gate
	}
	return f.File.Sync()
}

// TestFlushBesideACompaction stops a compaction in the middle, as a slow disk
// does: points that come meanwhile must not pile up behind it.
func TestFlushBesideACompaction(t *testing.T) {
	fs := &stalling{FS: wal.OS{}}
	cfg := local.Config{Dir: t.TempDir(), FS: fs}
	e, err := local.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	l := newBacklog(model.RunID{1}, 1, 100)
	if err := e.PutAttempt(t.Context(), l.run, model.Attempt{Number: 1}); err != nil {
		t.Fatal(err)
	}
	add := func() {
		if _, err := e.Append(t.Context(), l.batch(250)); err != nil {
			t.Error(err)
		}
		if err := e.Flush(t.Context()); err != nil {
			t.Error(err)
		}
	}
	for range 8 {
		add()
	}
	gate := make(chan struct{})
	fs.mu.Lock()
	fs.gate, fs.met = gate, make(chan struct{})
	fs.mu.Unlock()
	merged, flushed := make(chan error, 1), make(chan struct{})
	go func() { merged <- e.Compact(t.Context(), true) }()
	<-fs.met
	go func() { defer close(flushed); add(); add() }()
	select {
	case <-flushed:
	case <-time.After(10 * time.Second):
		t.Error("the flush waits for the compaction")
	}
	close(gate)
	if err := <-merged; err != nil {
		t.Fatal(err)
	}
	<-flushed
	whole(t, e, l)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if e, err = local.Open(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	whole(t, e, l)
}

// whole checks that every point of a backlog is there once.
func whole(t *testing.T, e *local.Engine, l *backlog) {
	t.Helper()
	rows, err := e.Scan(t.Context(), store.ScanRequest{Run: l.run, Axis: model.AxisRLStep, To: math.MaxInt64, Limit: l.at + 1})
	if err != nil || len(rows.TimeNs) != l.at {
		t.Fatalf("%d of %d points, %v", len(rows.TimeNs), l.at, err)
	}
	for i, v := range rows.Values.Floats {
		if v != float64(i+1) {
			t.Fatalf("point %d is %v", i, v)
		}
	}
}
