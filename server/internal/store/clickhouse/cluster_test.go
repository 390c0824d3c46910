package clickhouse_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	chkit "github.com/kymogram/kymogram/internal/testkit/clickhouse"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/cluster"
)

// read is the steps of a run as a server reads them.
func read(ctx context.Context, e *clickhouse.Engine, run model.RunID) ([]int64, error) {
	rows, err := e.Scan(ctx, store.ScanRequest{Run: run, Axis: model.AxisStep, To: 1 << 40, Limit: 1 << 20})
	if err != nil {
		return nil, err
	}
	return rows.Axes[0].Values, nil
}

// wantSteps is true for 1…n, each once.
func wantSteps(steps []int64, n uint64) bool {
	for i, s := range steps {
		if s != int64(i)+1 {
			return false
		}
	}
	return uint64(len(steps)) == n
}

// eventually waits until something is so.
func eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !so(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not so: %s", what)
		}
	}
}

func (r *rig) count(t testing.TB, s *chkit.Server) string {
	t.Helper()
	return strings.TrimSpace(s.Do(t, "SELECT count() FROM "+r.table()))
}

// One replica of each shard does not get what is written. Each server reads, at once, all that
// any was told to be stored.
func TestLaggingReplica(t *testing.T) {
	t.Parallel()
	r := newCluster(t)
	engines := []*clickhouse.Engine{r.open(t, "a"), r.open(t, "b")}
	for _, shard := range r.cluster.Shards {
		shard[1].Do(t, "SYSTEM STOP FETCHES "+r.table())
	}
	const runs, batches = 4, 8 // on both shards, and read first from both replicas
	for k := range uint64(batches) {
		for run := range byte(runs) {
			id, w := model.RunID{run + 1}, model.WriterID{run + 1}
			by := engines[(int(k)/2)%2]
			if k == 0 {
				open(t, by, id, w)
			}
			if _, err := by.Append(t.Context(), numbers(id, w, k+1, k+1, false)); err != nil {
				t.Fatal(err)
			}
			for n, e := range engines {
				if steps, err := read(t.Context(), e, id); err != nil || !wantSteps(steps, k+1) {
					t.Errorf("after batch %d of run %d server %d reads %v, %v", k+1, run+1, n, steps, err)
				}
			}
		}
	}
	lags := 0
	for _, shard := range r.cluster.Shards {
		if r.count(t, shard[1]) != r.count(t, shard[0]) {
			lags++
		}
		shard[1].Do(t, "SYSTEM START FETCHES "+r.table())
	}
	if lags == 0 {
		t.Error("no replica lagged, so nothing was tried")
	}
	for i, shard := range r.cluster.Shards {
		eventually(t, fmt.Sprintf("shard %d is equal", i+1), func() bool { return r.count(t, shard[1]) == r.count(t, shard[0]) })
	}
}

// What is acknowledged is on both replicas. When one is away, writes and reads go on, and what it
// missed it gets.
func TestReplicaDies(t *testing.T) {
	t.Parallel()
	r := newCluster(t)
	engines := []*clickhouse.Engine{r.open(t, "a"), r.open(t, "b")}
	run, w := model.RunID{1}, model.WriterID{1}
	open(t, engines[0], run, w)
	last := uint64(0)
	write := func() {
		t.Helper()
		for _, e := range engines {
			if _, err := e.Append(t.Context(), numbers(run, w, last+1, last+2, false)); err != nil {
				t.Fatal(err)
			}
			last += 2
		}
	}
	write()
	shard := r.cluster.Shards[r.shard(t, run)]
	for i, s := range shard {
		if _, visible, different := r.storedAt(t, s); visible != fmt.Sprint(last) || different != visible {
			t.Errorf("replica %d has %s of %d points, %s different ones", i+1, visible, last, different)
		}
	}
	for i, s := range shard {
		s.Kill()
		write()
		for n, e := range engines {
			if steps, err := read(t.Context(), e, run); err != nil || !wantSteps(steps, last) {
				t.Errorf("without replica %d server %d reads %v, %v", i+1, n, steps, err)
			}
		}
		s.Serve(t)
		eventually(t, "the replica is back", func() bool { return r.count(t, shard[0]) == r.count(t, shard[1]) })
	}
	late := r.open(t, "c") // a server that starts while one is away
	shard[0].Kill()
	later := r.open(t, "d")
	for n, e := range []*clickhouse.Engine{late, later} {
		if steps, err := read(t.Context(), e, run); err != nil || !wantSteps(steps, last) {
			t.Errorf("new server %d reads %v, %v", n, steps, err)
		}
	}
	shard[0].Serve(t)
}

// shard is the place of a run's.
func (r *rig) shard(t testing.TB, run model.RunID) int {
	t.Helper()
	var n int
	if _, err := fmt.Sscan(r.ledger.Do(t, fmt.Sprintf("SELECT shard FROM %s.ledger_runs WHERE id = '\\x%x'", r.schema, run[:])), &n); err != nil {
		t.Fatal(err)
	}
	return n - 1
}

// With copies=2 nothing is acknowledged while one replica is away.
func TestCopies(t *testing.T) {
	t.Parallel()
	r := newCluster(t)
	r.config.Points += "&copies=2"
	r.config.Patience = time.Second
	e := r.open(t, "a")
	run, w := model.RunID{1}, model.WriterID{1}
	open(t, e, run, w)
	if _, err := e.Append(t.Context(), numbers(run, w, 1, 3, false)); err != nil {
		t.Fatal(err)
	}
	shard := r.cluster.Shards[r.shard(t, run)]
	shard[1].Kill()
	if ack, err := e.Append(t.Context(), numbers(run, w, 4, 6, false)); model.CodeOf(err) != model.CodeUnavailable {
		t.Errorf("with one replica: %+v, %v", ack, err)
	}
	if steps, err := read(t.Context(), e, run); err != nil || !wantSteps(steps, 3) {
		t.Errorf("reads %v, %v", steps, err)
	}
	shard[1].Serve(t)
	eventually(t, "it is acknowledged", func() bool {
		ack, err := e.Append(t.Context(), numbers(run, w, 4, 6, false))
		return err == nil && ack.Mark == 6
	})
	for i, s := range shard {
		if _, visible, _ := r.storedAt(t, s); visible != "6" {
			t.Errorf("replica %d has %s of 6 points", i+1, visible)
		}
	}
}

// A start that cannot work says why.
func TestRefusedStarts(t *testing.T) {
	t.Parallel()
	r := newCluster(t)
	whole := r.config.Points
	plain, _, _ := strings.Cut(whole, "?")
	other := "clickhouse://" + r.points.Addrs[0] + "/" + r.database()
	for _, c := range []struct {
		address string
		code    model.Code
		says    string
	}{
		{plain, model.CodeInvalid, "names none"},
		{whole + "x", model.CodeInvalid, "knows no cluster"},
		{whole + "&copies=3", model.CodeInvalid, "more than the 2 replicas"},
		{whole + "&copies=two", model.CodeInvalid, "no number"},
		{whole + "&copies=0", model.CodeInvalid, "no number"},
		{other + "?cluster=", model.CodeInvalid, "no name"},
		{"http://" + r.points.Addrs[0], model.CodeInvalid, "no address"},
		{strings.Replace(whole, r.database(), "nowhere", 1), model.CodeUnavailable, "nowhere"},
	} {
		config := r.config
		config.Points = c.address
		e, err := clickhouse.Open(t.Context(), config)
		if err == nil {
			_ = e.Close()
		}
		if err == nil || model.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.address, err)
		}
	}
	single := r.config
	single.Points = other
	e, err := clickhouse.Open(t.Context(), single)
	if err != nil {
		t.Fatal(err)
	}
	_ = e.Close()
	if e, err := clickhouse.Open(t.Context(), r.config); err == nil || !strings.Contains(err.Error(), "single server") {
		t.Errorf("the table of a single server was taken for a cluster's: %v, %v", e, err)
	}
}

// Each server of a cluster tells how it stands: one that is away, and replicas that lost ZooKeeper.
// Before a start there are no tables, and none are made.
func TestExamine(t *testing.T) {
	t.Parallel()
	r := newCluster(t)
	look := func() []cluster.State {
		t.Helper()
		list, err := cluster.Examine(t.Context(), cluster.Options{Address: r.config.Points, Connections: 1})
		if err != nil || len(list) != 4 {
			t.Fatalf("%+v, %v", list, err)
		}
		return list
	}
	for range 2 {
		for _, s := range look() {
			if s.Err != nil || s.Table || s.Replica != nil || s.Skew.Abs() > s.Took+2*time.Second || !strings.Contains(s.Version, ".") {
				t.Errorf("before a start: %+v", s)
			}
		}
	}
	e := r.open(t, "a")
	run, w := model.RunID{1}, model.WriterID{1}
	open(t, e, run, w)
	if _, err := e.Append(t.Context(), numbers(run, w, 1, 5, false)); err != nil {
		t.Fatal(err)
	}
	parts := uint64(0)
	for i, s := range look() {
		if s.Err != nil || !s.Table || s.Shard != 1+i/2 || s.Replica == nil || s.Replica.Readonly || s.Waiting != 0 {
			t.Errorf("at work: %+v", s)
		}
		parts += s.Parts
	}
	if parts < 2 {
		t.Errorf("%d parts on two replicas", parts)
	}
	r.cluster.Shards[1][0].Kill()
	for i, s := range look() {
		if away := i == 2; away != (s.Err != nil) {
			t.Errorf("server %d of which the third is away: %+v", i, s)
		}
	}
	r.cluster.Keeper.Kill()
	eventually(t, "the replicas tell that they lost ZooKeeper", func() bool {
		list := look()
		return list[0].Replica != nil && list[0].Replica.Readonly && list[3].Replica != nil && list[3].Replica.Readonly
	})
}
