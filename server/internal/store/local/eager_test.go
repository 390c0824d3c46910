package local_test

import (
	"math/rand/v2"
	"testing"

	"github.com/kymogram/kymogram/internal/wal/faultfs"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local"
	"github.com/kymogram/kymogram/server/internal/store/storetest"
)

// TestConformanceOfLongReads runs the suite with the ways of reading that only
// long series take otherwise: the answers must be the same.
func TestConformanceOfLongReads(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	storetest.RunHistory(t, func(t testing.TB) *storetest.Harness {
		fs := faultfs.New()
		open := func() (store.Engine, error) {
			e, err := local.Open(t.Context(), config(fs))
			if err != nil {
				return nil, err
			}
			e.Eager()
			return e, nil
		}
		e, err := open()
		if err != nil {
			t.Fatal(err)
		}
		h := &storetest.Harness{Engine: e}
		h.Reopen = func() (store.Engine, error) {
			fs = fs.Crash(random)
			return open()
		}
		h.Upkeep = func(e store.Engine, what int) error {
			if what%4 == 3 {
				return e.(*local.Engine).Compact(t.Context(), true)
			}
			return e.(*local.Engine).Flush(t.Context())
		}
		return h
	})
}
