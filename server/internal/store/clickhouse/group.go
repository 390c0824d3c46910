package clickhouse

import (
	"context"
	"errors"
	"sync"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/curve"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/ledger"
	"github.com/kymogram/kymogram/server/internal/store/local/decision"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
)

// group is requests that share an insert and a commit.
type group struct {
	engine  *Engine
	desk    decision.Desk
	rows    map[uint32]*rows // by shard
	blocks  []ledger.Block   // where rows are that are in the log
	members map[*lease][]*request
}

// errLater puts a request into the next group: what it needs of ClickHouse, an earlier one of
// its group changes.
var errLater = errors.New("waits for the group before")

// again is a failure of a try: the lease is lost, or a server did not take it.
type again struct{ cause error }

// Error implements error.
func (a again) Error() string { return "try again: " + a.cause.Error() }

// Unwrap gives the failure.
func (a again) Unwrap() error { return a.cause }

var errLost = errors.New("another server holds the run")

// process works a group: decide, insert, commit. It gives back what waits for the next.
func (e *Engine) process(requests []*request) (later []*request) {
	ctx, cancel := context.WithTimeout(context.Background(), e.cfg.Patience)
	defer cancel()
	e.grouped(len(requests))
	g := &group{engine: e, rows: map[uint32]*rows{}, members: map[*lease][]*request{}}
	for _, r := range requests {
		if g.decide(ctx, r) {
			later = append(later, r)
		}
	}
	for _, r := range later {
		r.lease.deferred = false
	}
	if len(g.members) == 0 {
		return later
	}
	if err := g.insert(ctx); err != nil {
		e.cfg.Logger.Warn("insert failed, tried again", "err", err)
		g.fail(err)
		return later
	}
	changes := make([]*ledger.Change, 0, len(g.members))
	for l := range g.members {
		l.changing()
		changes = append(changes, l.settle())
	}
	lost, err := e.ledger.Commit(ctx, changes, g.blocks)
	if err != nil {
		e.cfg.Logger.Warn("commit failed, tried again", "err", err)
		g.fail(err)
		return later
	}
	g.end(lost)
	return later
}

// decide does a request's act on its lease; true when it waits for the next group.
func (g *group) decide(ctx context.Context, r *request) (later bool) {
	l := r.lease
	if l.deferred {
		return true
	}
	if !g.engine.leases.valid(l) {
		r.end(again{errLost})
		return false
	}
	if r.lsn > 0 && l.Committed(r.lsn) { // the answer of its commit was lost
		at, err := g.engine.ledger.Position(ctx, r.run, r.lsn)
		if err != nil {
			r.end(again{err})
			return false
		}
		r.position = at
		r.end(nil)
		return false
	}
	r.lsn, r.batch = 0, -1
	had := 0
	if l.change != nil {
		had = len(l.change.Batches)
	}
	switch r.err = r.act(l, g); {
	case errors.Is(r.err, errLater):
		l.deferred = true
		return true
	case errors.As(r.err, new(again)):
		r.end(r.err)
		return false
	}
	if l.change != nil && len(l.change.Batches) > had {
		r.batch = len(l.change.Batches) - 1
		r.lsn = l.change.Batches[r.batch].LSN
	}
	g.members[l] = append(g.members[l], r)
	return false
}

// insert stores the rows, on all shards at once.
func (g *group) insert(ctx context.Context) error {
	failed := make([]error, 0, len(g.rows))
	var mu sync.Mutex
	var wg sync.WaitGroup
	for shard, r := range g.rows {
		if len(r.run) == 0 {
			continue
		}
		wg.Go(func() {
			blocks, err := g.engine.sink.put(ctx, shard, r)
			mu.Lock()
			defer mu.Unlock()
			failed, g.blocks = append(failed, err), append(g.blocks, blocks...)
		})
	}
	wg.Wait()
	return errors.Join(failed...)
}

// of is the rows of a lease's shard.
func (g *group) of(l *lease) *rows {
	r := g.rows[l.Shard]
	if r == nil {
		r = &rows{}
		g.rows[l.Shard] = r
	}
	return r
}

// fail gives up all that the group decided.
func (g *group) fail(cause error) {
	for l, requests := range g.members {
		g.engine.leases.drop(l)
		for _, r := range requests {
			r.end(again{cause})
		}
	}
}

// end answers what is committed.
func (g *group) end(lost map[model.RunID]bool) {
	for l, requests := range g.members {
		c := l.change
		l.change = nil
		if lost[l.ID] {
			g.engine.leases.drop(l)
		}
		for _, r := range requests {
			switch {
			case lost[l.ID]:
				r.end(again{errLost})
			case r.batch >= 0:
				r.position = c.Batches[r.batch].Position
				r.end(r.err)
			default:
				r.end(r.err)
			}
		}
	}
}

// resolve decides about a batch. Where relative steps start without having been fixed, ClickHouse
// is asked where curves end.
func (g *group) resolve(ctx context.Context, l *lease, b *model.Batch) (*record.Batch, []model.Refusal, error) {
	l.steps = nil
	for {
		l.missing = nil
		rec, refused, err := g.desk.Of(l, b, g.engine.cfg.SeriesPerRunLimit)
		if err != nil || len(l.missing) == 0 {
			return rec, refused, err
		}
		g.desk.Clear()
		if l.pending() {
			return nil, nil, errLater
		}
		if err := g.learn(ctx, l); err != nil {
			return nil, nil, again{err}
		}
	}
}

// learn asks where curves end.
func (g *group) learn(ctx context.Context, l *lease) error {
	keys := make([]curve.StepKey, len(l.missing))
	for i, k := range l.missing {
		keys[i] = curve.StepKey{Series: store.SeriesID(k.Series), Episode: k.Episode, Episodic: k.Episodic}
	}
	next, err := g.engine.nextSteps(ctx, l.ID, keys)
	if err != nil {
		return err
	}
	if l.steps == nil {
		l.steps = map[record.StartKey]int64{}
	}
	for i, k := range l.missing {
		l.steps[k] = next[i]
	}
	return nil
}
