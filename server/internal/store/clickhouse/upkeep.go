package clickhouse

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
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
	return errors.Join(e.free(ctx), e.sweep(ctx))
}

// free deletes the points of deleted runs.
func (e *Engine) free(ctx context.Context) error {
	runs, err := e.ledger.Unfreed(ctx, freedAtOnce)
	if err != nil || len(runs) == 0 {
		return err
	}
	list := make([]string, len(runs))
	for i := range runs {
		list[i] = literal(runs[i])
	}
	if err := e.points.Exec(ctx, "ALTER TABLE "+e.table+" DELETE WHERE run IN ("+strings.Join(list, ", ")+")"); err != nil {
		return fmt.Errorf("free deleted runs: %w", err)
	}
	return e.ledger.Freed(ctx, runs)
}

// sweep deletes rows of long-gone epochs that do not count. When there are none, the ledger
// merges the spans that they lay between.
func (e *Engine) sweep(ctx context.Context) error {
	list, err := e.ledger.Unswept(ctx, sweptAtOnce)
	if err != nil {
		return err
	}
	for _, p := range list {
		where := fmt.Sprintf("run = %s AND lsn < %d AND NOT (%s)", literal(p.Run), p.Below, curve.Visible(p.Spans))
		var left uint64
		if err := e.points.QueryRow(ctx, "SELECT count() FROM "+e.table+" WHERE "+where).Scan(&left); err != nil {
			return fmt.Errorf("count rows that do not count: %w", err)
		}
		if left > 0 { // ClickHouse deletes in its own time: the next round sees
			err = e.points.Exec(ctx, "ALTER TABLE "+e.table+" DELETE WHERE "+where)
		} else {
			err = e.ledger.Swept(ctx, p)
		}
		if err != nil {
			return fmt.Errorf("sweep run %s: %w", p.Run, err)
		}
	}
	return nil
}

func literal(run model.RunID) string {
	return "toFixedString(unhex('" + hex.EncodeToString(run[:]) + "'), 16)"
}
