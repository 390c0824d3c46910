package clickhouse_test

import (
	"flag"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	natskit "github.com/kymogram/kymogram/internal/testkit/nats"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse"
)

var figures = flag.Int("figures", 0, "print what a point costs with and without a log, with so many points")

// TestLogFigures compares a store with a log and one without, one after the other, three times:
// go test -run TestLogFigures -figures 1000000 -v. Processor time is that of the server alone.
func TestLogFigures(t *testing.T) {
	if *figures == 0 {
		t.Skip("a measurement: -figures 320000")
	}
	with, without := newRig(t), newRig(t)
	with.config.Log = natskit.URL(natskit.Start(t, 1)...)
	for _, r := range []*rig{with, without} {
		r.config.Every = 200 * time.Millisecond
	}
	engines := []*clickhouse.Engine{with.open(t, "a"), without.open(t, "a")}
	for try := range byte(3) {
		var cost [2]time.Duration
		for i, e := range engines {
			cost[i] = costOf(t, e, try, *figures)
			with.drained(t)
		}
		t.Logf("with a log %.2f µs a point, without %.2f, ratio %.2f", micros(cost[0], *figures), micros(cost[1], *figures), float64(cost[0])/float64(cost[1]))
	}
}

func micros(d time.Duration, points int) float64 { return float64(d.Microseconds()) / float64(points) }

// costOf writes by eight writers to runs of their own, and waits until it can be read.
func costOf(t *testing.T, e *clickhouse.Engine, try byte, points int) time.Duration {
	t.Helper()
	const writers, size = 8, 2000
	before := used(t)
	var writing sync.WaitGroup
	for i := range byte(writers) {
		run, w := model.RunID{try + 1, i + 1}, model.WriterID{try + 1, i + 1}
		writing.Go(func() {
			open(t, e, run, w)
			for k := range uint64(points / writers / size) {
				if _, err := e.Append(t.Context(), numbers(run, w, k*size+1, (k+1)*size, false)); err != nil {
					t.Error(err)
					return
				}
			}
			if _, err := e.RunStats(t.Context(), run); err != nil {
				t.Error(err)
			}
		})
	}
	writing.Wait()
	return used(t) - before
}

// used is the processor time of this process.
func used(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
