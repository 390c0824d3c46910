package clickhouse

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/curve"
)

const (
	// beatEvery is how often this server says that it works.
	beatEvery = 10 * time.Second
	// upkeepEvery is how often deleted runs are freed and unused leases forgotten.
	upkeepEvery = time.Minute
	// idleAfter is how long nobody used a lease that is forgotten.
	idleAfter = 10 * time.Minute
	// freedAtOnce is how many runs one statement frees.
	freedAtOnce = 100
	// sweptAtOnce is how many runs are swept in one round.
	sweptAtOnce = 20
)

// Run implements [store.Engine].
func (e *Engine) Run(ctx context.Context) error {
	var drains sync.WaitGroup
	defer drains.Wait()
	if e.journal != nil {
		for shard := range uint32(e.points.Shards()) {
			drains.Go(func() { e.drain(ctx, shard+1) })
		}
	}
	beat, keep := time.NewTicker(beatEvery), time.NewTicker(upkeepEvery)
	defer beat.Stop()
	defer keep.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-beat.C:
			err = e.ledger.Beat(ctx)
		case <-keep.C:
			err = e.Upkeep(ctx)
		}
		if err != nil && ctx.Err() == nil {
			e.cfg.Logger.Warn("upkeep failed, tried again later", "err", err)
		}
	}
}

// Upkeep frees what does not count any more, and forgets what nobody used for a while.
func (e *Engine) Upkeep(ctx context.Context) error {
	e.leases.forget(time.Now().Add(-idleAfter))
	return errors.Join(e.free(ctx), e.sweep(ctx), e.sweepDrains(ctx))
}

// free deletes the points of deleted runs. A run is free when it has none left an hour after its
// last lease: an insert from before has arrived by then.
func (e *Engine) free(ctx context.Context) error {
	list, err := e.ledger.Unfreed(ctx, freedAtOnce)
	if err != nil {
		return err
	}
	var all []error
	for shard, runs := range list {
		all = append(all, e.freeShard(ctx, shard, runs))
	}
	return errors.Join(all...)
}

func (e *Engine) freeShard(ctx context.Context, shard uint32, runs []model.RunID) error {
	texts := make([]string, len(runs))
	for i := range runs {
		texts[i] = literal(runs[i])
	}
	where := "run IN (" + strings.Join(texts, ", ") + ")"
	left, err := e.points.Left(ctx, shard, where)
	if err != nil {
		return fmt.Errorf("free deleted runs: %w", err)
	}
	if left == 0 {
		return e.ledger.Freed(ctx, runs)
	}
	if err := e.points.Delete(ctx, shard, where); err != nil {
		return fmt.Errorf("free deleted runs: %w", err)
	}
	return e.ledger.Unfree(ctx, runs)
}

// sweep deletes rows of long-gone epochs that do not count. When there are none, the ledger
// merges the spans that they lay between.
func (e *Engine) sweep(ctx context.Context) error {
	list, err := e.ledger.Unswept(ctx, sweptAtOnce)
	if err != nil {
		return err
	}
	var all []error
	for _, p := range list {
		where := fmt.Sprintf("run = %s AND lsn < %d AND NOT (%s)", literal(p.Run), p.Below, curve.Visible(p.Spans))
		left, err := e.points.Left(ctx, p.Shard, where)
		switch {
		case err != nil:
		case left > 0: // ClickHouse deletes in its own time: a later round sees
			err = e.points.Delete(ctx, p.Shard, where)
		default:
			err = e.ledger.Swept(ctx, p)
		}
		if err != nil {
			all = append(all, fmt.Errorf("sweep run %s: %w", p.Run, err))
		}
	}
	return errors.Join(all...)
}

// sweepDrains does the same for the inserts of drains.
func (e *Engine) sweepDrains(ctx context.Context) error {
	list, err := e.ledger.UnsweptDrains(ctx)
	if err != nil {
		return err
	}
	var all []error
	for shard, drains := range list {
		ranges := make([]string, len(drains))
		for i := range drains {
			ranges[i] = fmt.Sprintf("lsn BETWEEN %d AND %d", drains[i].Left.First, drains[i].Left.Last)
		}
		where := strings.Join(ranges, " OR ")
		left, err := e.points.Left(ctx, shard, where)
		switch {
		case err != nil:
		case left > 0:
			err = e.points.Delete(ctx, shard, where)
		default:
			err = e.ledger.SweptDrains(ctx, shard, drains)
		}
		if err != nil {
			all = append(all, fmt.Errorf("sweep the drains of shard %d: %w", shard, err))
		}
	}
	return errors.Join(all...)
}

func literal(run model.RunID) string {
	return "toFixedString(unhex('" + hex.EncodeToString(run[:]) + "'), 16)"
}
