package clickhouse

import (
	"context"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
)

var _ store.SharedLog = (*Engine)(nil)

// leftAtOnce is how many updates of servers that are gone are read at once.
const leftAtOnce = 1000

// EarlierMeta implements [store.SharedLog].
func (e *Engine) EarlierMeta(ctx context.Context, run model.RunID, after, before uint64) ([]store.Meta, error) {
	return e.ledger.Earlier(ctx, run, after, before)
}

// LeftMeta implements [store.SharedLog].
func (e *Engine) LeftMeta(ctx context.Context) ([]store.Meta, error) {
	list, err := e.ledger.Left(ctx, leftAtOnce)
	if err == nil {
		e.left.Store(int64(len(list)))
	}
	return list, err
}

// ForgetMeta implements [store.SharedLog].
func (e *Engine) ForgetMeta(ctx context.Context, lsns []uint64) error {
	return e.ledger.Forget(ctx, lsns)
}
