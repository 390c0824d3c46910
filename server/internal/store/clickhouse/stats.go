package clickhouse

import (
	"context"
	"errors"
	"time"

	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/cluster"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/ledger"
)

// countEvery is how old the numbers of Stats may be. Where it takes long to count, they may be so
// many times older: a scrape asks for them, and counting must not become the servers' work.
const (
	countEvery = 10 * time.Second
	countShare = 100
)

// Work is what this server did since its start.
type Work struct {
	Points cluster.Stats
	Ledger ledger.Stats
	Groups uint64 // that shared an insert and a commit
	Writes uint64 // in these, each try
	Runs   int    // that are remembered for their writers
	Left   int    // batches with updates of servers that are gone, at the last look
}

// Work asks nobody, and costs the same however many runs there are.
func (e *Engine) Work() Work {
	return Work{
		Points: e.points.Stats(), Ledger: e.ledger.Stats(), Groups: e.groups.Load(), Writes: e.writes.Load(),
		Runs: e.leases.kept(), Left: int(e.left.Load()),
	}
}

// grouped counts a group.
func (e *Engine) grouped(writes int) {
	e.groups.Add(1)
	e.writes.Add(uint64(writes))
}

// counted are numbers of Stats.
type counted struct {
	store.Stats
	at   time.Time
	took time.Duration
}

// Stats implements [store.Engine]. Numbers are up to 10 s old, as a rule, and stay when a server
// does not answer.
func (e *Engine) Stats() store.Stats {
	old := e.known.Load()
	if old != nil && time.Since(old.at) < max(countEvery, countShare*old.took) {
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
	fresh.took = time.Since(fresh.at)
	e.known.Store(&fresh)
	return fresh.Stats
}
