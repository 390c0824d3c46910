package clickhouse_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse"
)

// logger writes a run, batch after batch, by any server that takes it, and sends a batch again
// until it is acknowledged.
type logger struct {
	run    model.RunID
	writer model.WriterID
	acked  atomic.Uint64 // points, each of which is a step
}

func (l *logger) work(ctx context.Context, t *testing.T, engines []*clickhouse.Engine) {
	for at, opened := rand.IntN(len(engines)), false; ctx.Err() == nil; {
		e, first := engines[at], l.acked.Load()+1
		var err error
		if !opened {
			err = e.PutOpen(ctx, l.run, model.Attempt{Number: 1}, l.writer, nil)
			opened = err == nil
		}
		if opened {
			last := first + rand.Uint64N(20)
			var ack model.Ack
			if ack, err = e.Append(ctx, numbers(l.run, l.writer, first, last, false)); err == nil {
				if ack.Mark != last {
					t.Errorf("batch %d to %d of %s: mark %d", first, last, l.run, ack.Mark)
					return
				}
				l.acked.Store(last)
				continue
			}
			if model.CodeOf(err) == model.CodeGap && ack.Mark >= first { // a longer batch was stored, and its answer lost
				l.acked.Store(ack.Mark)
			}
		}
		at = rand.IntN(len(engines))
		time.Sleep(10 * time.Millisecond) // as a client that was refused
	}
}

// look reads the run all the time: what was acknowledged before is there, in order and once.
func (l *logger) look(ctx context.Context, t *testing.T, engines []*clickhouse.Engine, reads *atomic.Int64) {
	for ctx.Err() == nil {
		before := l.acked.Load()
		steps, err := read(ctx, engines[rand.IntN(len(engines))], l.run)
		switch n := uint64(len(steps)); {
		case err != nil:
			if code := model.CodeOf(err); ctx.Err() == nil && code != model.CodeUnavailable && code != model.CodeTimeout && code != model.CodeNotFound || code == model.CodeNotFound && before > 0 {
				t.Errorf("read of %s with %d points: %v", l.run, before, err)
			}
		case n < before || !wantSteps(steps, n):
			t.Errorf("read of %s: %d steps, %d were acknowledged before", l.run, n, before)
		default:
			reads.Add(1)
		}
		time.Sleep(10 * time.Millisecond) // as a page that is open
	}
}

// fault is something that happens to a server, and its end.
type fault struct {
	name       string
	begin, end func()
}

func (r *rig) faults(t *testing.T) (out []fault) {
	for i, s := range r.cluster.All() {
		out = append(out,
			fault{fmt.Sprintf("replica %d is killed", i), s.Kill, func() { s.Serve(t) }},
			fault{fmt.Sprintf("replica %d is frozen", i), func() { s.Freeze(t) }, func() { s.Thaw(t) }},
			fault{fmt.Sprintf("replica %d gets nothing", i), func() { s.Do(t, "SYSTEM STOP FETCHES "+r.table()) }, func() { s.Do(t, "SYSTEM START FETCHES "+r.table()) }})
	}
	k := r.cluster.Keeper
	return append(out,
		fault{"ZooKeeper is killed", k.Kill, func() { k.Serve(t) }},
		fault{"ZooKeeper is frozen", func() { k.Freeze(t) }, func() { k.Thaw(t) }},
		fault{"PostgreSQL is killed", r.ledger.Kill, func() { r.ledger.Serve(t) }})
}

// Two servers write and read while a server below them is killed or frozen, again and again.
// Reads never see less than was acknowledged. At the end every replica has every point once.
func TestFaults(t *testing.T) {
	r := newCluster(t)
	if r.ledger.Port == 0 {
		t.Skip("a PostgreSQL of the user's own is not killed")
	}
	rounds, _ := strconv.Atoi(os.Getenv("ROUNDS")) // 0 where it is none
	if rounds == 0 {
		rounds = 30
	}
	r.config.Patience = 3 * time.Second
	engines := []*clickhouse.Engine{r.open(t, "a"), r.open(t, "b")}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var writing, reading sync.WaitGroup
	var reads atomic.Int64
	var loggers []*logger
	for i := range byte(6) {
		l := &logger{run: model.RunID{i + 1}, writer: model.WriterID{i + 1}}
		loggers = append(loggers, l)
		writing.Go(func() { l.work(ctx, t, engines) })
		reading.Go(func() { l.look(ctx, t, engines, &reads) })
	}
	faults := r.faults(t)
	for n := range rounds {
		f := faults[rand.IntN(len(faults))]
		began := time.Now()
		f.begin()
		time.Sleep(time.Duration(200+rand.IntN(3000)) * time.Millisecond) // how long it lasts
		f.end()
		for _, l := range loggers {
			before := l.acked.Load()
			eventually(t, fmt.Sprintf("%s is written after %s", l.run, f.name), func() bool { return l.acked.Load() > before })
		}
		if t.Failed() {
			t.Fatalf("in round %d: %s", n+1, f.name)
		}
		t.Logf("round %d: %s, all write again after %s", n+1, f.name, time.Since(began).Round(time.Millisecond))
	}
	cancel()
	writing.Wait()
	reading.Wait()
	r.settled(t, loggers, engines, reads.Load())
}

// settled holds what is there at the end against what loggers were told.
func (r *rig) settled(t *testing.T, loggers []*logger, engines []*clickhouse.Engine, reads int64) {
	t.Helper()
	want, sum := map[int]uint64{}, uint64(0)
	for _, l := range loggers {
		// The last batch may be stored without that its logger heard of it.
		mark, err := engines[0].Mark(t.Context(), l.writer)
		if err != nil || mark < l.acked.Load() {
			t.Errorf("the mark of %s is %d, %d were acknowledged, %v", l.run, mark, l.acked.Load(), err)
		}
		for n, e := range engines {
			if steps, err := read(t.Context(), e, l.run); err != nil || !wantSteps(steps, mark) {
				t.Errorf("server %d reads %d steps of %s, want %d, %v", n, len(steps), l.run, mark, err)
			}
		}
		want[r.shard(t, l.run)] += mark
		sum += mark
	}
	for i, shard := range r.cluster.Shards {
		for k, s := range shard {
			s.Do(t, "SYSTEM SYNC REPLICA "+r.table())
			if all, visible, different := r.storedAt(t, s); visible != fmt.Sprint(want[i]) || different != visible {
				t.Errorf("replica %d of shard %d has %s rows, %s count, %s different ones, want %d", k+1, i+1, all, visible, different, want[i])
			}
		}
	}
	t.Logf("%d points acknowledged, %d reads under way, on shards %v", sum, reads, want)
}
