package clickhouse_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse"
)

// TestWork: what two servers count is what the tables of both engines have.
func TestWork(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, b := r.open(t, "a"), r.open(t, "b")
	run, writers := model.RunID{1}, []model.WriterID{{1}, {2}}
	for i, e := range []*clickhouse.Engine{a, b, a} { // the run goes from one to the other, and back
		w := writers[i%2]
		open(t, e, run, w)
		first := uint64(i)/2*8 + 1
		if _, err := e.Append(t.Context(), numbers(run, w, first, first+7, false)); err != nil {
			t.Fatal(err)
		}
	}
	one, two := a.Work(), b.Work()
	all, visible, _ := r.stored(t)
	epochs := strings.TrimSpace(r.ledger.Do(t, "SELECT epoch FROM "+r.schema+".ledger_runs"))
	if rows := fmt.Sprint(one.Points.Rows + two.Points.Rows); rows != all || visible != "24" {
		t.Errorf("%s rows counted, %s in the table, %s count", rows, all, visible)
	}
	if taken := fmt.Sprint(one.Ledger.Taken + two.Ledger.Taken); taken != epochs {
		t.Errorf("%s leases counted, the run has had %s", taken, epochs)
	}
	if one.Ledger.Lost == 0 || two.Ledger.Lost != 0 {
		t.Errorf("leases lost: %d and %d; the first server lost one", one.Ledger.Lost, two.Ledger.Lost)
	}
	for name, w := range map[string]clickhouse.Work{"a": one, "b": two} {
		if w.Points.Inserts.Count == 0 || w.Points.Inserts.Failed > 0 || w.Ledger.Commits.Count < w.Points.Inserts.Count || w.Groups < w.Ledger.Commits.Count || w.Writes < w.Groups {
			t.Errorf("%s: %+v", name, w)
		}
		if w.Points.Servers != 1 || w.Points.Unreachable != 0 || w.Runs != 1 || w.Ledger.Pool.Most != 16 || w.Ledger.Skew.Abs() > time.Second {
			t.Errorf("%s: %+v", name, w)
		}
	}
	if one.Ledger.Servers != 1 || two.Ledger.Servers != 2 {
		t.Errorf("servers: %d at the start of the first, %d at that of the second", one.Ledger.Servers, two.Ledger.Servers)
	}
}

// TestFailedInsertsAreCounted: as many as fail, and none after.
func TestFailedInsertsAreCounted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	e := r.open(t, "a")
	run, w := model.RunID{1}, model.WriterID{1}
	open(t, e, run, w)
	var left atomic.Int32
	left.Store(3)
	afterInsert(e, func() error {
		if left.Add(-1) >= 0 {
			return errors.New("the answer is lost")
		}
		return nil
	})
	if _, err := e.Append(t.Context(), numbers(run, w, 1, 8, false)); err != nil {
		t.Fatal(err)
	}
	if s := e.Work().Points; s.Inserts.Failed != 3 || s.Inserts.Count != 4 || s.Rows != 8 {
		t.Errorf("%+v", s)
	}
}

// TestWorkOfCluster: a second copy that does not come, and a read that nobody can answer.
func TestWorkOfCluster(t *testing.T) {
	t.Parallel()
	r := newCluster(t)
	e := r.open(t, "a")
	run, w := model.RunID{1}, model.WriterID{1}
	open(t, e, run, w)
	if _, err := e.Append(t.Context(), numbers(run, w, 1, 4, false)); err != nil {
		t.Fatal(err)
	}
	if s := e.Work().Points; s.Servers != 4 || s.Unreachable != 0 || s.OneCopy != 0 || s.Refused != 0 {
		t.Errorf("before: %+v", s)
	}
	shard := r.cluster.Shards[r.shard(t, run)]
	for _, s := range shard {
		s.Do(t, "SYSTEM STOP FETCHES "+r.table())
	}
	if _, err := e.Append(t.Context(), numbers(run, w, 5, 8, false)); err != nil {
		t.Fatal(err)
	}
	if s := e.Work().Points; s.OneCopy != 1 {
		t.Errorf("one insert has one copy, %d are counted", s.OneCopy)
	}
	for _, s := range shard { // the one that has all
		if r.count(t, s) == "8" {
			s.Kill()
		}
	}
	if steps, err := read(t.Context(), e, run); model.CodeOf(err) != model.CodeUnavailable {
		t.Errorf("%v, %v", steps, err)
	}
	if s := e.Work().Points; s.Refused == 0 || s.Checks == 0 || s.Unreachable != 1 {
		t.Errorf("after: %+v", s)
	}
}
