package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/curve"
)

const (
	// waitFor is how long a read waits for a replica that has all rows.
	waitFor = 5 * time.Second
	// trustFor is how long rows that a replica had are taken to be there.
	trustFor = time.Minute
	// mostChecked bounds the runs that a replica is known to have.
	mostChecked = 10_000
)

// Tries is how often a read may be tried: each time by another server.
func (c *Cluster) Tries() int {
	if c.name == "" {
		return 1
	}
	return 2
}

// Reader reads by a server of the shard that a new run goes to, where most are: it has its rows
// itself.
func (c *Cluster) Reader(ctx context.Context, run model.RunID, source curve.Source) *curve.Reader {
	list := c.shards[curve.Shard(run, len(c.shards))-1]
	at := living(ctx, list, number(string(run[:]))>>8)[0]
	if c.name != "" {
		source = complete{source, c, at}
	}
	return curve.New(watched{at.conn, at}, c.local(), source)
}

// complete is what counts of runs, with a table that has all of it.
type complete struct {
	curve.Source
	cluster *Cluster
	by      *replica // that asks
}

// Facts implements [curve.Source].
func (s complete) Facts(ctx context.Context, run model.RunID) (curve.Facts, error) {
	f, err := s.Source.Facts(ctx, run)
	if err != nil || f.Points == 0 {
		return f, err
	}
	has, err := s.cluster.whole(ctx, s.by, &f)
	if err == nil && has != s.by {
		f.Table = s.cluster.remote(has)
	}
	return f, err
}

// whole finds a replica that has all rows of a run, first the one that asks.
func (c *Cluster) whole(ctx context.Context, by *replica, f *curve.Facts) (*replica, error) {
	shard, err := c.shard(f.Shard)
	if err != nil {
		return nil, err
	}
	start := number(string(f.Run[:])) >> 8
	if at := slices.Index(shard, by); at >= 0 {
		start = uint64(at)
	}
	limit, cancel := context.WithTimeout(ctx, waitFor)
	defer cancel()
	var found *replica
	var had uint64
	if c.until(limit, func() bool {
		for _, r := range living(limit, shard, start) {
			n, err := r.count(limit, c.local(), f)
			if r.note(err) == nil && n == f.Points {
				found = r
				return true
			}
			had = max(had, n)
		}
		return false
	}) {
		return found, nil
	}
	c.counts.refused.Add(1)
	return nil, model.Errorf(model.CodeUnavailable, "no replica of shard %d that answers has the points of run %s: %d are there, %d count", f.Shard, f.Run, had, f.Points).
		WithHint("Look at system.replicas for those that are away or late.")
}

// verdict is that a replica had all rows of a run once.
type verdict struct {
	points uint64
	spans  []curve.Span // where they are
	at     time.Time
}

// count is how many rows of a run that count are there. Rows never change, so those that were
// there lately are not counted again.
func (r *replica) count(ctx context.Context, table string, f *curve.Facts) (uint64, error) {
	old := r.verdict(f.Run)
	if old.points >= f.Points {
		return f.Points, nil
	}
	spans, more := curve.Beyond(f.Spans, old.spans)
	if !more { // some were merged
		old, spans = verdict{at: time.Now()}, f.Spans
	}
	var fresh uint64
	r.checks.Add(1)
	if err := r.conn.QueryRow(ctx, counting(table, f.Run, spans)).Scan(&fresh); err != nil {
		return 0, fmt.Errorf("count the points of a run: %w", err)
	}
	if fresh += old.points; fresh == f.Points {
		r.keep(f.Run, verdict{fresh, f.Spans, old.at})
	}
	return fresh, nil
}

// counting asks for the rows of a run in some spans.
func counting(table string, run model.RunID, spans []curve.Span) string {
	var from uint64
	if len(spans) > 0 {
		from = slices.MinFunc(spans, func(a, b curve.Span) int { return cmp.Compare(a.First, b.First) }).First
	}
	return fmt.Sprintf("SELECT count() FROM %s PREWHERE lsn >= %d WHERE %s AND (%s)", table, from, curve.OfRun(run), curve.Visible(spans))
}

func (r *replica) verdict(run model.RunID) verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v := r.checked[run]; time.Since(v.at) < trustFor {
		return v
	}
	return verdict{at: time.Now()}
}

func (r *replica) keep(run model.RunID, v verdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.checked == nil || len(r.checked) >= mostChecked {
		r.checked = map[model.RunID]verdict{}
	}
	r.checked[run] = v
}
