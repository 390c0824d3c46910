package clickhouse_test

import (
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse"
)

// expect holds what is stored against what was acknowledged.
func (r *rig) expect(t *testing.T, want int) (all int) {
	t.Helper()
	there, visible, different := r.stored(t)
	if visible != strconv.Itoa(want) || different != visible {
		t.Errorf("%s points count, %s different ones, want %d", visible, different, want)
	}
	if sum := strings.TrimSpace(r.ledger.Do(t, "SELECT coalesce(sum(count), 0) FROM "+r.schema+".ledger_streams")); sum != visible {
		t.Errorf("the ledger tells of %s points, %s count", sum, visible)
	}
	all, _ = strconv.Atoi(there) // a count
	return all
}

// Two servers write to one run and to runs of their own, all at once.
func TestTwoServers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	engines := []*clickhouse.Engine{r.open(t, "a"), r.open(t, "b")}
	const writers, batches, size = 3, 12, 5
	var acked atomic.Int64
	var wg sync.WaitGroup
	for n, e := range engines {
		for i := range writers {
			for run := range byte(2) { // run 1 is everybody's
				id, w := model.RunID{1 + run*byte(n+1)}, model.WriterID{byte(n + 1), byte(i + 1), run + 1}
				wg.Go(func() {
					open(t, e, id, w)
					for k := range uint64(batches) {
						ack, err := e.Append(t.Context(), numbers(id, w, k*size+1, (k+1)*size, false))
						if err != nil || ack.Mark != (k+1)*size {
							t.Errorf("batch %d of %s: %+v, %v", k, w, ack, err)
							return
						}
						acked.Add(size)
					}
				})
			}
		}
	}
	wg.Wait()
	if acked.Load() != 2*writers*2*batches*size {
		t.Errorf("%d points acknowledged", acked.Load())
	}
	all := r.expect(t, int(acked.Load()))
	t.Logf("%d points acknowledged, %d rows in the table; epochs and batches of each run:\n%s", acked.Load(), all,
		r.ledger.Do(t, "SELECT encode(substr(run, 1, 1), 'hex'), count(*), sum(last) FROM "+r.schema+".ledger_spans GROUP BY run"))
}

// A server inserts, and another one takes the run before it commits.
func TestLostLease(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	slow, other := r.open(t, "a"), r.open(t, "b")
	run := model.RunID{1}
	open(t, slow, run, model.WriterID{1})
	open(t, other, run, model.WriterID{2})
	if _, err := slow.Append(t.Context(), numbers(run, model.WriterID{1}, 1, 5, false)); err != nil {
		t.Fatal(err)
	}
	taken := false
	afterInsert(slow, func() error {
		if taken {
			return nil
		}
		taken = true
		_, err := other.Append(t.Context(), numbers(run, model.WriterID{2}, 1, 3, false))
		return err
	})
	ack, err := slow.Append(t.Context(), numbers(run, model.WriterID{1}, 6, 10, false))
	if err != nil || ack.Mark != 10 {
		t.Fatalf("%+v, %v", ack, err)
	}
	if all := r.expect(t, 13); all < 13+5 {
		t.Errorf("%d rows are there, want those of the lost lease too", all)
	}
}

// The answer to an insert is lost: its rows are there, and count no more.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	e := r.open(t, "a")
	run, w := model.RunID{1}, model.WriterID{1}
	open(t, e, run, w)
	left := 3
	afterInsert(e, func() error {
		if left == 0 {
			return nil
		}
		left--
		return errors.New("the connection broke")
	})
	ack, err := e.Append(t.Context(), numbers(run, w, 1, 4, false))
	if err != nil || ack.Mark != 4 || ack.Stored != 4 {
		t.Fatalf("%+v, %v", ack, err)
	}
	if all := r.expect(t, 4); all != 16 {
		t.Errorf("%d rows are there, want 4 of each try", all)
	}
}

// The answer to a commit is lost, also of points that have no sequences to tell them by.
func TestLostCommit(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	way, address := through(t, r)
	r.config.Ledger = address
	e := r.open(t, "a")
	run := model.RunID{1}
	open(t, e, run, model.WriterID{1})
	open(t, e, run, model.WriterID{2})
	for k := range uint64(5) {
		for _, foreign := range []bool{false, true} {
			w := model.WriterID{1}
			if foreign {
				w = model.WriterID{2}
			}
			b := numbers(run, w, k*3+1, k*3+3, foreign)
			if !foreign {
				b.Updates = []model.Update{{Op: model.OpAddTags, Seq: b.First, Tags: []string{"x"}}}
			}
			afterInsert(e, func() error { way.armed.Store(true); return nil })
			ack, err := e.Append(t.Context(), b)
			if err != nil || ack.Stored != 3 || ack.LSN == 0 {
				t.Fatalf("batch %d: %+v, %v", k, ack, err)
			}
		}
	}
	if way.lost.Load() < 5 {
		t.Errorf("only %d answers were lost", way.lost.Load())
	}
	r.expect(t, 30)
	n := uint64(0)
	for m, err := range e.PendingMeta(t.Context()) {
		if n++; err != nil || len(m.Updates) != 1 || m.Updates[0].Seq != (n-1)*3+1 {
			t.Errorf("pending %+v, %v", m, err)
		}
	}
	if n != 5 {
		t.Errorf("%d updates are pending", n)
	}
}

// A server of the two is killed between insert and commit, and comes back.
func TestKilledBetween(t *testing.T) {
	t.Parallel()
	for _, victim := range []string{"PostgreSQL", "ClickHouse"} {
		t.Run(victim, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			if r.ledger.Port == 0 || len(r.points.Addrs) != 1 {
				t.Skip("servers of the user's own are not killed")
			}
			e := r.open(t, "a")
			run, w := model.RunID{1}, model.WriterID{1}
			open(t, e, run, w)
			killed := 0
			var wg sync.WaitGroup
			afterInsert(e, func() error {
				if killed++; killed > 1 {
					return nil
				}
				kill, serve := r.ledger.Kill, func() { r.ledger.Serve(t) }
				if victim == "ClickHouse" {
					kill, serve = r.points.Kill, func() { r.points.Serve(t) }
				}
				kill()
				wg.Go(serve)
				if victim == "ClickHouse" {
					return errors.New("the answer did not come")
				}
				return nil
			})
			ack, err := e.Append(t.Context(), numbers(run, w, 1, 7, false))
			wg.Wait()
			if err != nil || ack.Mark != 7 {
				t.Fatalf("%+v, %v", ack, err)
			}
			again, err := e.Append(t.Context(), numbers(run, w, 1, 7, false))
			if err != nil || again.Mark != 7 || again.Stored != 0 {
				t.Errorf("again: %+v, %v", again, err)
			}
			r.expect(t, 7)
		})
	}
}

// Rows that do not count are deleted once no insert can bring more, and spans become one.
func TestSwept(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	e := r.open(t, "a")
	run, w := model.RunID{1}, model.WriterID{1}
	open(t, e, run, w)
	failures := 0
	afterInsert(e, func() error {
		if failures++; failures%2 == 1 {
			return errors.New("the connection broke")
		}
		return nil
	})
	for k := range uint64(4) {
		if _, err := e.Append(t.Context(), numbers(run, w, k*2+1, k*2+2, false)); err != nil {
			t.Fatal(err)
		}
	}
	if all := r.expect(t, 8); all != 16 {
		t.Fatalf("%d rows", all)
	}
	if err := e.Upkeep(t.Context()); err != nil { // the run is in use
		t.Fatal(err)
	}
	r.ledger.Do(t, "UPDATE "+r.schema+".ledger_runs SET taken = taken - interval '2 hours', epoch = epoch + 1")
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if err := e.Upkeep(t.Context()); err != nil {
			t.Fatal(err)
		}
		spans := strings.TrimSpace(r.ledger.Do(t, "SELECT count(*), min(first) FROM "+r.schema+".ledger_spans"))
		if spans == "1|0" {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("spans: %s", spans)
		}
	}
	all, visible, _ := r.stored(t)
	if all != "8" {
		t.Errorf("%s rows are left, %s by the last span", all, visible)
	}
	if ack, err := e.Append(t.Context(), numbers(run, w, 9, 10, false)); err != nil || ack.Stored != 2 {
		t.Errorf("afterwards: %+v, %v", ack, err)
	}
}

// The rows of an insert that arrives after its run was deleted, and after nothing was left of it,
// are deleted too.
func TestLateInsert(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	e := r.open(t, "a")
	run, w := model.RunID{1}, model.WriterID{1}
	open(t, e, run, w)
	if _, err := e.Append(t.Context(), numbers(run, w, 1, 4, false)); err != nil {
		t.Fatal(err)
	}
	if err := e.DeleteRun(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	runs := r.schema + ".ledger_runs"
	freed := func() string { return strings.TrimSpace(r.ledger.Do(t, "SELECT freed FROM "+runs)) }
	empty := func() bool {
		r.ledger.Do(t, "UPDATE "+runs+" SET due = now()")
		if err := e.Upkeep(t.Context()); err != nil {
			t.Fatal(err)
		}
		all, _, _ := r.stored(t)
		return all == "0"
	}
	eventually(t, "the points are deleted", empty)
	empty() // it is seen that none is left
	if freed() != "f" {
		t.Error("an insert that is under way would be forgotten")
	}
	r.points.Do(t, "INSERT INTO "+r.table()+" (run, lsn) SELECT toFixedString(unhex('01'), 16), 7 FROM numbers(3)")
	r.ledger.Do(t, "UPDATE "+runs+" SET taken = taken - interval '2 hours'")
	eventually(t, "the late rows are deleted, and the run is free", func() bool { return empty() && freed() == "t" })
}
