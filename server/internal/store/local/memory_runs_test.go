package local_test

import (
	"encoding/binary"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

// hasty never waits for the disk: runs by the thousand take no longer than their bytes.
type hasty struct{ wal.FS }

type hastyFile struct{ wal.File }

func (hastyFile) Sync() error { return nil }

func (h hasty) Open(name string, create bool) (wal.File, error) {
	f, err := h.FS.Open(name, create)
	return hastyFile{f}, err
}

// manyRuns writes runs of one series of one point.
func manyRuns(t testing.TB, e *local.Engine, from, to int) {
	t.Helper()
	s := memoryShapes()[0]
	for i := from; i < to; i++ {
		s.send(t, e, runNumber(i), 1)
	}
}

func runNumber(i int) (id model.RunID) {
	binary.BigEndian.PutUint64(id[8:], uint64(i+1))
	return id
}

// TestMemoryOfRuns is TestMemoryOfSeries for runs of one series of one point.
func TestMemoryOfRuns(t *testing.T) {
	alone(t)
	const n = 4000
	config := local.Config{Dir: t.TempDir(), FS: hasty{wal.OS{}}}
	e := must(local.Open(t.Context(), config))
	manyRuns(t, e, n, 2*n) // what is made once
	if err := e.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.Forget()
	base, told := float64(heap()), float64(e.Stats().MemoryBytes)
	check := func(state string, most float64) {
		t.Helper()
		taken, counted := (float64(heap())-base)/n, (float64(e.Stats().MemoryBytes)-told)/n
		t.Logf("%-12s %5.0f B a run, %5.0f counted", state, taken, counted)
		if taken > most {
			t.Errorf("%s: a run takes %.0f B, more than %.0f", state, taken, most)
		}
		if counted < 0.8*taken || counted > 1.3*taken {
			t.Errorf("%s: %.0f B of %.0f are counted", state, counted, taken)
		}
	}
	manyRuns(t, e, 0, n)
	check("in memory", 1024)
	if err := e.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	check("flushed", 840)
	e.Forget()
	check("at rest", 624)
	for i := range n {
		list(t, e, runNumber(i), 1)
	}
	check("read", 1024)
}
