package clickhouse_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/kymogram/kymogram/internal/model"
	natskit "github.com/kymogram/kymogram/internal/testkit/nats"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse"
)

// newLogged is a rig with a log.
func newLogged(t testing.TB) (*rig, []*natskit.Server) {
	t.Helper()
	servers := natskit.Start(t, 1)
	r := newRig(t)
	r.config.Log = natskit.URL(servers...)
	return r, servers
}

// drained waits until the log is empty, by what the ledger says.
func (r *rig) drained(t testing.TB) {
	t.Helper()
	eventually(t, "all is drained", func() bool {
		return strings.TrimSpace(r.ledger.Do(t, "SELECT count(*) FROM "+r.schema+".ledger_blocks WHERE number > 0")) == "0"
	})
}

// wantRead fails where a read does not show exactly the first steps.
func wantRead(t testing.TB, e *clickhouse.Engine, run model.RunID, n uint64) {
	t.Helper()
	if steps, err := read(t.Context(), e, run); err != nil || !wantSteps(steps, n) {
		t.Errorf("%d steps of %s, want %d, %v", len(steps), run, n, err)
	}
}

// What one server acknowledged both read at once, though it is only in the log.
func TestLog(t *testing.T) {
	t.Parallel()
	r, _ := newLogged(t)
	a, b := r.open(t, "a"), r.open(t, "b")
	run, w := model.RunID{1}, model.WriterID{1}
	open(t, a, run, w)
	for k := range uint64(20) {
		if ack, err := a.Append(t.Context(), numbers(run, w, k*5+1, (k+1)*5, false)); err != nil || ack.Mark != (k+1)*5 {
			t.Fatalf("%+v, %v", ack, err)
		}
		for _, e := range []*clickhouse.Engine{a, b} {
			wantRead(t, e, run, (k+1)*5)
		}
	}
	if all := r.expect(t, 100); all != 100 {
		t.Errorf("%d rows are there", all)
	}
}

// ClickHouse is away, for a minute in the long form: writes go on as fast as before, and reads say
// why they do not. Then all is there, once.
func TestAway(t *testing.T) {
	t.Parallel()
	lasts := time.Second
	if os.Getenv("CLUSTER") != "" {
		lasts = time.Minute
	}
	r, _ := newLogged(t)
	if len(r.points.Addrs) != 1 {
		t.Skip("servers of the user's own are not killed")
	}
	e := r.open(t, "a")
	run, w, acked := model.RunID{1}, model.WriterID{1}, uint64(0)
	open(t, e, run, w)
	const size = 10
	write := func(lasts time.Duration) (batches int) {
		for end := time.Now().Add(lasts); time.Now().Before(end); batches++ {
			if ack, err := e.Append(t.Context(), numbers(run, w, acked+1, acked+size, false)); err != nil || ack.Mark != acked+size {
				t.Fatalf("%+v, %v", ack, err)
			}
			acked += size
		}
		return batches
	}
	before := write(min(lasts, 10*time.Second))
	r.points.Kill()
	while := write(lasts)
	if err := e.Probe(t.Context()); err != nil {
		t.Errorf("writes work, and the server is not ready: %v", err)
	}
	_, err := read(t.Context(), e, run)
	var told *model.Error
	if !errors.As(err, &told) || told.Code != model.CodeUnavailable || told.Hint == "" {
		t.Errorf("a read while ClickHouse is away: %v", err)
	}
	began := time.Now()
	r.points.Serve(t)
	r.drained(t)
	t.Logf("%d batches in %s with ClickHouse, %d in %s without; %s after its start all is drained",
		before, min(lasts, 10*time.Second), while, lasts, time.Since(began).Round(time.Millisecond))
	wantRead(t, e, run, acked)
	r.expect(t, int(acked))
}

// The answers of inserts, and of commits of them, are lost; blocks are drained by two servers.
// Each point is there once.
func TestDrainedOnce(t *testing.T) {
	t.Parallel()
	r, _ := newLogged(t)
	p, through := through(t, r)
	r.config.Ledger = through
	engines := []*clickhouse.Engine{r.openQuiet(t, "a"), r.openQuiet(t, "b")}
	var mu sync.Mutex
	inserts := 0
	for _, e := range engines {
		afterInsert(e, func() error {
			mu.Lock()
			defer mu.Unlock()
			if inserts++; inserts%3 == 0 {
				return errors.New("the connection broke")
			}
			p.armed.Store(inserts%5 == 0)
			return nil
		})
		work(t, e)
	}
	const writers, batches, size = 4, 15, 4
	var writing sync.WaitGroup
	for i := range byte(writers) {
		run, w := model.RunID{i + 1}, model.WriterID{i + 1}
		writing.Go(func() {
			for err := errors.New("not yet"); err != nil; {
				err = engines[i%2].PutOpen(t.Context(), run, model.Attempt{Number: 1}, w, nil)
			}
			for k := range uint64(batches) {
				if ack, err := engines[i%2].Append(t.Context(), numbers(run, w, k*size+1, (k+1)*size, false)); err != nil || ack.Mark != (k+1)*size {
					t.Errorf("%+v, %v", ack, err)
				}
			}
		})
	}
	writing.Wait()
	r.drained(t)
	all := r.expect(t, writers*batches*size)
	t.Logf("%d inserts, %d commits without an answer, %d rows for %d points", inserts, p.lost.Load(), all, writers*batches*size)
	if all <= writers*batches*size {
		t.Error("no insert was repeated")
	}
	for i := range byte(writers) {
		wantRead(t, engines[1-i%2], model.RunID{i + 1}, batches*size)
	}
}

// openQuiet opens an engine that does not drain yet.
func (r *rig) openQuiet(t testing.TB, node string) *clickhouse.Engine {
	t.Helper()
	c := r.config
	c.Node = node
	e, err := clickhouse.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// Two servers take a run from one another all the time, so that blocks have points that no commit
// has.
func TestLostLeaseLogged(t *testing.T) {
	t.Parallel()
	r, _ := newLogged(t)
	r.config.Patience = time.Second
	e := r.open(t, "a")
	run, w := model.RunID{1}, model.WriterID{1}
	open(t, e, run, w)
	other := r.open(t, "b")
	open(t, other, run, model.WriterID{2})
	var writing sync.WaitGroup
	for k := range uint64(10) { // they take it from one another
		for i, one := range []*clickhouse.Engine{e, other} {
			writing.Go(func() {
				id := model.WriterID{byte(i + 1)}
				if _, err := one.Append(t.Context(), numbers(run, id, k+1, k+1, false)); err != nil && model.CodeOf(err) != model.CodeUnavailable {
					t.Errorf("%v", err)
				}
			})
		}
		writing.Wait()
	}
	r.drained(t)
	marks := strings.TrimSpace(r.ledger.Do(t, "SELECT coalesce(sum(mark), 0) FROM "+r.schema+".ledger_marks"))
	var want int
	if _, err := fmt.Sscan(marks, &want); err != nil {
		t.Fatal(err)
	}
	r.expect(t, want)
}

// The log is killed and comes back; nothing of it is lost.
func TestLogKilled(t *testing.T) {
	t.Parallel()
	r, servers := newLogged(t)
	e := r.open(t, "a")
	run, w := model.RunID{1}, model.WriterID{1}
	open(t, e, run, w)
	for k := range uint64(6) {
		var back sync.WaitGroup
		if k%2 == 1 {
			servers[0].Kill()
			back.Go(func() { time.Sleep(200 * time.Millisecond); servers[0].Serve(t) })
		}
		ack, err := e.Append(t.Context(), numbers(run, w, k*3+1, (k+1)*3, false))
		back.Wait()
		if err != nil || ack.Mark != (k+1)*3 {
			t.Fatalf("%+v, %v", ack, err)
		}
	}
	r.drained(t)
	r.expect(t, 18)
	wantRead(t, e, run, 18)
}

// Which log a server is given.
func TestWhichLog(t *testing.T) {
	t.Parallel()
	r, _ := newLogged(t)
	one := r.openQuiet(t, "a")
	var gate sync.RWMutex
	one.Wrap(func(c driver.Conn) driver.Conn { return gated{c, &gate} })
	work(t, one)
	run, w := model.RunID{1}, model.WriterID{1}
	open(t, one, run, w)
	elsewhere := r.config
	elsewhere.Log = natskit.URL(natskit.Start(t, 1)...)
	start := func(c clickhouse.Config) error {
		e, err := clickhouse.Open(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		return e.OpenLog(t.Context())
	}
	if err := start(elsewhere); model.CodeOf(err) != model.CodeConflict {
		t.Errorf("with another NATS: %v", err)
	}
	without := r.config
	without.Log = ""
	if err := start(without); err != nil {
		t.Errorf("without a log that is empty: %v", err)
	}
	gate.Lock()
	if _, err := one.Append(t.Context(), numbers(run, w, 1, 3, false)); err != nil {
		t.Fatal(err)
	}
	if err := start(without); model.CodeOf(err) != model.CodeConflict {
		t.Errorf("without a log that has points: %v", err)
	}
	gate.Unlock()
	wantRead(t, one, run, 3)
}

// gated is a connection whose inserts wait while somebody has the lock.
type gated struct {
	driver.Conn
	gate *sync.RWMutex
}

func (g gated) PrepareBatch(ctx context.Context, query string, o ...driver.PrepareBatchOption) (driver.Batch, error) {
	g.gate.RLock()
	defer g.gate.RUnlock()
	return g.Conn.PrepareBatch(ctx, query, o...)
}
