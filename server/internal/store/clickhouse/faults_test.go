package clickhouse_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/testkit/fault"
	pgkit "github.com/kymogram/kymogram/internal/testkit/postgres"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/cluster"
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
				if ack.Mark < last { // it is higher where a longer batch was stored, and its answer lost
					t.Errorf("batch %d to %d of %s: mark %d", first, last, l.run, ack.Mark)
					return
				}
				l.acked.Store(ack.Mark)
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
		page, cancel := context.WithTimeout(ctx, 10*time.Second)
		steps, err := read(page, engines[rand.IntN(len(engines))], l.run)
		cancel()
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

// load is loggers and readers at work, each over all servers.
type load struct {
	rig     *rig
	engines []*clickhouse.Engine
	loggers []*logger
	reads   atomic.Int64
	stop    func()
}

// loaded has two servers under load, over a cluster and two servers of PostgreSQL.
func loaded(t *testing.T) (*load, *pgkit.Pair) {
	t.Helper()
	r := newCluster(t)
	if r.ledger.Port == 0 {
		t.Skip("a PostgreSQL of the user's own is not killed")
	}
	pair := pgkit.StartPair(t)
	r.ledger, r.config.Ledger = pair.Primary, pair.URL(t)
	_, r.schema, _ = strings.Cut(r.config.Ledger, "search_path=")
	r.config.Patience = 3 * time.Second
	return r.load(t), pair
}

func (r *rig) load(t *testing.T) *load {
	t.Helper()
	l := &load{rig: r, engines: []*clickhouse.Engine{r.open(t, "a"), r.open(t, "b")}}
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	l.stop = func() { cancel(); work.Wait() }
	t.Cleanup(l.stop)
	for i := range byte(6) {
		of := &logger{run: model.RunID{i + 1}, writer: model.WriterID{i + 1}}
		l.loggers = append(l.loggers, of)
		work.Go(func() { of.work(ctx, t, l.engines) })
		work.Go(func() { of.look(ctx, t, l.engines, &l.reads) })
	}
	return l
}

// goesOn waits until every run is written to.
func (l *load) goesOn(t *testing.T, when string) {
	t.Helper()
	for _, of := range l.loggers {
		before, end := of.acked.Load(), time.Now().Add(5*time.Minute) // a machine that is busy takes long
		for ; of.acked.Load() <= before; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s is not written %s: %d points acknowledged", of.run, when, before)
			}
		}
	}
}

// Two servers write and read while servers below them are killed, frozen or replaced, again and
// again. Reads never see less than was acknowledged. At the end every replica has every point once.
func TestFaults(t *testing.T) {
	l, pair := loaded(t)
	all := append(fault.Cluster(t, l.rig.cluster, l.rig.table()), fault.Pair(t, pair)...)
	fault.Try(t, fault.Rounds(30), all, func(when string) { l.goesOn(t, when) })
	l.rig.ledger = pair.Primary
	l.settled(t)
}

// The primary of PostgreSQL hangs for good, and its connections with it. The standby takes over.
func TestPrimaryHangs(t *testing.T) {
	l, pair := loaded(t)
	l.goesOn(t, "at first")
	pair.Primary.Freeze(t)
	pair.Standby.Promote(t)
	l.rig.ledger = pair.Standby
	for range 3 {
		l.goesOn(t, "while the old primary hangs")
	}
	before := l.reads.Load()
	eventually(t, "runs are read", func() bool { return l.reads.Load() > before+20 })
	l.settled(t)
}

// A replica of each shard gets nothing for 30 s. Nobody reads it meanwhile as if it had all.
func TestLagsForLong(t *testing.T) {
	l, _ := loaded(t)
	l.goesOn(t, "at first")
	for _, shard := range l.rig.cluster.Shards {
		shard[1].Do(t, "SYSTEM STOP FETCHES "+l.rig.table())
	}
	before := l.reads.Load()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end) && !t.Failed(); {
		l.goesOn(t, "while replicas lag")
	}
	lag := 0
	for _, shard := range l.rig.cluster.Shards {
		all, _ := strconv.Atoi(l.rig.count(t, shard[0]))
		late, _ := strconv.Atoi(l.rig.count(t, shard[1])) // counts
		lag += all - late
		shard[1].Do(t, "SYSTEM START FETCHES "+l.rig.table())
	}
	if lag <= 0 {
		t.Errorf("replicas lagged by %d points, so nothing was tried", lag)
	}
	t.Logf("replicas lagged by %d points, under %d reads", lag, l.reads.Load()-before)
	l.settled(t)
}

// The clock of a replica is an hour ahead, that of another an hour late, and so is that of
// PostgreSQL. What is acknowledged is there once.
func TestClocksOff(t *testing.T) {
	l, pair := loaded(t)
	off := func(kill func(), ahead func(testing.TB, time.Duration), serve func(testing.TB), by time.Duration) {
		kill()
		ahead(t, by)
		serve(t)
		l.goesOn(t, fmt.Sprintf("with a clock that is %s ahead", by))
	}
	first, second := l.rig.cluster.Shards[0], l.rig.cluster.Shards[1]
	off(first[0].Kill, first[0].Ahead, first[0].Serve, time.Hour)
	off(second[1].Kill, second[1].Ahead, second[1].Serve, -time.Hour)
	off(pair.Primary.Kill, pair.Primary.Ahead, pair.Primary.Serve, time.Hour)
	list, err := cluster.Examine(t.Context(), cluster.Options{Address: l.rig.config.Points, Connections: 1})
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range list {
		want := map[int]time.Duration{0: time.Hour, 3: -time.Hour}[i]
		if s.Err != nil || (s.Skew-want).Abs() > s.Took+2*time.Second {
			t.Errorf("the clock of server %d is %s ahead, want %s, %v", i+1, s.Skew, want, s.Err)
		}
	}
	off(pair.Primary.Kill, pair.Primary.Ahead, pair.Primary.Serve, -time.Hour) // time goes back
	off(first[0].Kill, first[0].Ahead, first[0].Serve, 0)
	l.settled(t)
}

// settled holds what is there at the end against what loggers were told.
func (l *load) settled(t *testing.T) {
	t.Helper()
	l.stop()
	r, engines := l.rig, l.engines
	want, sum := map[int]uint64{}, uint64(0)
	for _, of := range l.loggers {
		// The last batch may be stored without that its logger heard of it.
		mark, err := engines[0].Mark(t.Context(), of.writer)
		if err != nil || mark < of.acked.Load() {
			t.Errorf("the mark of %s is %d, %d were acknowledged, %v", of.run, mark, of.acked.Load(), err)
		}
		for n, e := range engines {
			if steps, err := read(t.Context(), e, of.run); err != nil || !wantSteps(steps, mark) {
				t.Errorf("server %d reads %d steps of %s, want %d, %v", n, len(steps), of.run, mark, err)
			}
		}
		want[r.shard(t, of.run)] += mark
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
	t.Logf("%d points acknowledged, %d reads under way, on shards %v", sum, l.reads.Load(), want)
}
