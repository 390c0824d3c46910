package local_test

import (
	"math/rand/v2"
	"testing"

	"github.com/kymogram/kymogram/internal/wal/faultfs"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local"
	"github.com/kymogram/kymogram/server/internal/store/storetest"
)

func config(fs *faultfs.FS) local.Config {
	return local.Config{Dir: "/data", Marks: "/marks", FS: fs, SeriesPerRunLimit: storetest.SeriesLimit, WALSegmentBytes: 2048, CompactFiles: 2, SegmentBytes: 1 << 20}
}

// anyConfig is one of many that must not change an answer.
func anyConfig(fs *faultfs.FS, random *rand.Rand) local.Config {
	c := config(fs)
	c.WALSegmentBytes = []int64{256, 2048, 1 << 20}[random.IntN(3)]
	c.CompactFiles = []int{2, 3, 8}[random.IntN(3)]
	c.FlushBytes = []int{64, 1024, 8 << 20}[random.IntN(3)]
	return c
}

// alone skips a test in which one goroutine works, where -short says that the race detector
// looks on: it would take minutes and find nothing.
func alone(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("one goroutine works here")
	}
}

// TestConformance opens with other options each time, after a crash, which keeps
// only what was synced, or from a backup of the engine at work.
func TestConformance(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	storetest.Run(t, func(t testing.TB) *storetest.Harness {
		fs := faultfs.New()
		e, err := local.Open(t.Context(), config(fs))
		if err != nil {
			t.Fatal(err)
		}
		h := upkept(t, e)
		h.Reopen = func() (store.Engine, error) {
			if random.IntN(3) == 0 {
				fs = copyFolder(t, fs, random.Uint64N(50))
			} else {
				fs = fs.Crash(random)
			}
			return local.Open(t.Context(), anyConfig(fs, random))
		}
		return h
	})
}

// upkept is a harness that can flush and merge.
func upkept(t testing.TB, e store.Engine) *storetest.Harness {
	upkeep := func(e store.Engine, what int) error {
		engine := e.(*local.Engine)
		if what%3 == 0 {
			engine.Forget()
		}
		switch what % 4 {
		case 0, 1:
			return engine.Flush(t.Context())
		case 2:
			return engine.Compact(t.Context(), false)
		}
		return engine.Compact(t.Context(), true)
	}
	return &storetest.Harness{Engine: e, Upkeep: upkeep}
}
