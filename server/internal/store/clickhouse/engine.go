package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/cluster"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/journal"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/ledger"
)

var _ store.Engine = (*Engine)(nil)

// connections is how many there are to each server, at most.
const connections = 16

// Engine is safe for parallel use.
type Engine struct {
	cfg    Config
	points *cluster.Cluster
	ledger *ledger.Ledger
	leases *leases
	queue  *queue
	sink   sink
	// journal is the log in front of ClickHouse, nil for none.
	journal *journal.Journal

	groups, writes atomic.Uint64
	left           atomic.Int64

	closed atomic.Bool
	known  atomic.Pointer[counted]
}

// Open connects to both servers and makes what is missing of their tables.
func Open(ctx context.Context, cfg Config) (*Engine, error) { return open(ctx, cfg, nil) }

func open(ctx context.Context, cfg Config, moves *ledger.Mover) (*Engine, error) {
	cfg = cfg.withDefaults()
	if cfg.Node == "" {
		return nil, model.Errorf(model.CodeInvalid, "the store needs a name of this server")
	}
	points, err := cluster.Open(ctx, cluster.Options{Address: cfg.Points, Password: cfg.Password, Node: cfg.Node, Connections: connections, Logger: cfg.Logger})
	if err != nil {
		return nil, err
	}
	l, err := ledger.Open(ctx, cfg.Ledger, ledger.Options{Node: cfg.Node, Hold: cfg.Hold, Connections: connections, Shards: points.Shards(), Moves: moves})
	if err != nil {
		return nil, errors.Join(err, points.Close())
	}
	return &Engine{
		cfg: cfg, points: points, ledger: l,
		leases: newLeases(l, cfg.Patience), queue: newQueue(cfg.Every, cfg.GroupPoints), sink: table{points},
	}, nil
}

// Close implements [store.Engine]. What is written waits for nothing here: an answer was given
// when it was stored.
func (e *Engine) Close() error {
	if e.closed.Swap(true) {
		return nil
	}
	if e.journal != nil {
		e.journal.Close()
	}
	e.ledger.Close()
	if err := e.points.Close(); err != nil {
		return fmt.Errorf("close ClickHouse: %w", err)
	}
	return nil
}

// Runs implements [store.Roster].
func (e *Engine) Runs(ctx context.Context) iter.Seq[model.KeptRun] {
	return func(yield func(model.KeptRun) bool) {
		var after model.RunID
		for {
			page, err := e.ledger.Runs(ctx, after, rosterPage)
			if err != nil {
				e.cfg.Logger.Error("runs cannot be listed", "err", err)
				return
			}
			for _, r := range page {
				if !yield(r) {
					return
				}
				after = r.ID
			}
			if len(page) < rosterPage {
				return
			}
		}
	}
}

const rosterPage = 1000

// PendingMeta implements [store.MetaLog].
func (e *Engine) PendingMeta(ctx context.Context) iter.Seq2[store.Meta, error] {
	return func(yield func(store.Meta, error) bool) {
		list, err := e.ledger.Pending(ctx)
		if err != nil {
			yield(store.Meta{}, err)
			return
		}
		for _, m := range list {
			if !yield(m, nil) {
				return
			}
		}
	}
}

// ReleaseMeta implements [store.MetaLog].
func (e *Engine) ReleaseMeta(lsn uint64) {
	ctx, cancel := context.WithTimeout(context.Background(), e.cfg.Patience)
	defer cancel()
	if err := e.ledger.Release(ctx, lsn); err != nil {
		e.cfg.Logger.Warn("release of updates not noted", "lsn", lsn, "err", err)
	}
}
