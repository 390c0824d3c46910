package clickhouse

import (
	"context"
	"errors"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/curve"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/ledger"
)

// OpenMover opens the store for who moves points between it and a data folder. Secret is that of
// the folder; a store that is new gets it. Nil takes the store's. Points that wait in a log are
// not moved, so there must be none.
func OpenMover(ctx context.Context, cfg Config, secret []byte) (*Engine, error) {
	e, err := open(ctx, cfg, &ledger.Mover{Secret: secret})
	if err != nil {
		return nil, err
	}
	if err := e.checkDrained(ctx); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// Ledger is that of the store.
func (e *Engine) Ledger() *ledger.Ledger { return e.ledger }

// Rows gives the rows of a run that count and arrived at a number or later, by arrival and series.
func (e *Engine) Rows(ctx context.Context, run model.RunID, from uint64, take func(*curve.Row) error) error {
	return e.points.Reader(ctx, run, e.ledger).Rows(ctx, run, from, take)
}

// Sums sums up the points of a run that count, by series.
func (e *Engine) Sums(ctx context.Context, run model.RunID) (map[store.SeriesID]curve.Sum, error) {
	return read(ctx, e, run, func(r *curve.Reader) (map[store.SeriesID]curve.Sum, error) { return r.Sums(ctx, run) })
}
