package clickhouse

import (
	"context"
	"errors"
	"time"

	"github.com/kymogram/kymogram/server/internal/store"
)

// countEvery is how old the numbers of Stats may be.
const countEvery = 10 * time.Second

// counted are numbers of Stats.
type counted struct {
	store.Stats
	at time.Time
}

// Stats implements [store.Engine]. Numbers are up to 10 s old, and stay when a server does not
// answer.
func (e *Engine) Stats() store.Stats {
	old := e.known.Load()
	if old != nil && time.Since(old.at) < countEvery {
		return old.Stats
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	fresh := counted{at: time.Now()}
	var err error
	fresh.Runs, fresh.Series, fresh.Points, err = e.ledger.Count(ctx)
	bytes, found := e.points.Bytes(ctx)
	if err := errors.Join(err, found); err != nil {
		e.cfg.Logger.Warn("the store cannot be counted", "err", err)
		if old != nil {
			fresh.Stats = old.Stats
		}
	} else {
		fresh.DiskBytes = int64(bytes)
	}
	e.known.Store(&fresh)
	return fresh.Stats
}
