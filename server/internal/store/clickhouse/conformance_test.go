package clickhouse_test

import (
	"os"
	"testing"

	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse"
	"github.com/kymogram/kymogram/server/internal/store/storetest"
)

// TestConformance opens the engine anew after each crash: the old one is gone without a word,
// and its leases are taken over.
func TestConformance(t *testing.T) {
	run := storetest.Run
	if os.Getenv("CLUSTER") == "" { // the rest takes some minutes: make test-cluster
		run = storetest.RunFixed
	}
	conform(t, newRig(t), run)
}

// TestClusterConformance is the same with a cluster.
func TestClusterConformance(t *testing.T) {
	conform(t, newCluster(t), storetest.Run)
}

// TestLogConformance is the same with a log in front. Each read waits for a drain.
func TestLogConformance(t *testing.T) {
	if os.Getenv("CLUSTER") == "" {
		t.Skip("it takes a minute: make test-cluster")
	}
	r, _ := newLogged(t)
	conform(t, r, storetest.RunFixed)
}

func conform(t *testing.T, r *rig, run func(*testing.T, func(testing.TB) *storetest.Harness)) {
	t.Helper()
	cases := 2
	if r.cluster != nil { // five servers share this machine, and one history is thousands of questions
		cases = 1
	}
	r.open(t, "a") // makes the tables
	run(t, func(t testing.TB) *storetest.Harness {
		r.clear(t)
		stop := func() {} // it drains no more
		reopen := func() (store.Engine, error) {
			e, err := clickhouse.Open(t.Context(), r.config)
			if err == nil && r.config.Log != "" {
				stop = work(t, e)
			}
			return e, err
		}
		e, err := reopen()
		if err != nil {
			t.Fatal(err)
		}
		h := &storetest.Harness{Engine: e, Cases: cases}
		h.Reopen = func() (store.Engine, error) {
			stop()
			_ = h.Engine.Close() // it closes connections, as the end of a process does, and nothing else
			return reopen()
		}
		h.Upkeep = func(e store.Engine, what int) error {
			if what%2 == 0 {
				return nil
			}
			return e.(*clickhouse.Engine).Upkeep(t.Context()) //nolint:forcetypeassert // it is one
		}
		return h
	})
}
