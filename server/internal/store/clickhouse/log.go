package clickhouse

import (
	"context"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/curve"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/journal"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/ledger"
)

// OpenLog connects to the log of the configuration, and keeps servers of one store from having
// different ones. Without a log it fails while points wait in one. Call it before the first write.
func (e *Engine) OpenLog(ctx context.Context) error {
	known, err := e.ledger.Log(ctx, "")
	if err != nil {
		return err
	}
	if e.cfg.Log == "" {
		return e.checkDrained(ctx)
	}
	j, err := journal.Open(ctx, journal.Options{Address: e.cfg.Log, Secret: e.ledger.Secret(), Node: e.cfg.Node, Shards: e.points.Shards(), Known: known})
	if err != nil {
		return err
	}
	at, err := e.ledger.Log(ctx, j.Made())
	if err == nil && at != j.Made() {
		err = model.Errorf(model.CodeConflict, "%s has another log of this store", journal.Named(e.cfg.Log)).
			WithHint("Give each server the same --log. docs/scale-out.md says how a store gets another log.")
	}
	if err != nil {
		j.Close()
		return err
	}
	e.journal, e.sink = j, log{journal: j, table: table{e.points}}
	return nil
}

// checkDrained refuses to serve without a log that has points.
func (e *Engine) checkDrained(ctx context.Context) error {
	b, err := e.ledger.Backlog(ctx)
	if err != nil || b.Blocks == 0 {
		return err
	}
	return model.Errorf(model.CodeConflict, "%d blocks of points wait in the log of this store, and no --log is given", b.Blocks).
		WithHint("Start with --log until kymogram doctor cluster finds none. Then the log may be left out.")
}

// Backlog is what the log has that is not in ClickHouse yet.
func (e *Engine) Backlog(ctx context.Context) (ledger.Backlog, error) { return e.ledger.Backlog(ctx) }

// Logged reports whether there is a log.
func (e *Engine) Logged() bool { return e.journal != nil }

// nextSteps is where series go on. It waits for no drain, since the others of its group would wait
// too: where it needs points that are in the log, the write is tried again.
func (e *Engine) nextSteps(ctx context.Context, run model.RunID, keys []curve.StepKey) ([]int64, error) {
	ask := func(keys []curve.StepKey) ([]int64, error) {
		return read(ctx, e, run, func(r *curve.Reader) ([]int64, error) { return r.NextSteps(ctx, run, keys) })
	}
	if e.journal == nil {
		return ask(keys)
	}
	steps, left, err := curve.KnownSteps(ctx, e.ledger, run, keys)
	if err != nil {
		return nil, err
	}
	if len(left) > 0 {
		f, err := e.ledger.Facts(ctx, run)
		if err == nil && f.Logged > 0 {
			err = inLog(run)
		}
		if err != nil {
			return nil, err
		}
		more, err := ask(left)
		if err != nil {
			return nil, err
		}
		for i, k := range left {
			steps[k] = more[i]
		}
	}
	out := make([]int64, len(keys))
	for i, k := range keys {
		out[i] = steps[k]
	}
	return out, nil
}

func inLog(run model.RunID) error {
	return model.Errorf(model.CodeUnavailable, "the last points of run %s are in the log, and not yet in ClickHouse", run).
		WithHint("Look whether ClickHouse takes inserts. What was acknowledged is safe in the log, and is shown when it was brought over.")
}

// drainedFor is how long a read waits for points that are in the log.
const drainedFor = 5 * time.Second

// settled is what counts of runs, with a table that has all of it: who reads waits until what was
// acknowledged before is drained.
type settled struct{ *ledger.Ledger }

// Facts implements [curve.Source].
func (s settled) Facts(ctx context.Context, run model.RunID) (curve.Facts, error) {
	f, err := s.Ledger.Facts(ctx, run)
	if err != nil || f.Logged == 0 {
		return f, err
	}
	if err := s.wait(ctx, &f); err != nil {
		return f, err
	}
	return s.Ledger.Facts(ctx, run)
}

// wait looks again and again.
func (s settled) wait(ctx context.Context, f *curve.Facts) error {
	end := time.Now().Add(drainedFor)
	for pause := firstPause; ; pause = min(2*pause, drainedFor/100) {
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return model.Errorf(model.CodeTimeout, "the read was stopped: %v", ctx.Err())
		case <-timer.C:
		}
		if yes, err := s.Drained(ctx, f.Shard, f.Run, f.Logged); yes || err != nil {
			return err
		}
		if time.Now().After(end) {
			return inLog(f.Run)
		}
	}
}
