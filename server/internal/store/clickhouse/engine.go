package clickhouse

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"
	clickhouse "github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/curve"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/ledger"
)

var _ store.Engine = (*Engine)(nil)

// table is that of points, in the database of the address.
const table = "points"

// connections is how many there are to each of the two servers, at most.
const connections = 16

// Engine is safe for parallel use.
type Engine struct {
	cfg    Config
	points clickhouse.Conn
	table  string
	ledger *ledger.Ledger
	reader *curve.Reader
	leases *leases
	queue  *queue

	failed atomic.Uint64 // inserts
	closed atomic.Bool
	known  atomic.Pointer[counted]
}

// Open connects to both servers and makes what is missing of their tables.
func Open(ctx context.Context, cfg Config) (*Engine, error) {
	cfg = cfg.withDefaults()
	if cfg.Node == "" {
		return nil, model.Errorf(model.CodeInvalid, "the store needs a name of this server")
	}
	points, err := connect(ctx, cfg)
	if err != nil {
		return nil, err
	}
	l, err := ledger.Open(ctx, cfg.Ledger, ledger.Options{Node: cfg.Node, Hold: cfg.Hold, Connections: connections})
	if err != nil {
		return nil, errors.Join(err, points.Close())
	}
	return &Engine{
		cfg: cfg, points: points, table: table, ledger: l, reader: curve.New(points, table, l),
		leases: newLeases(l), queue: newQueue(cfg.Every, cfg.GroupPoints),
	}, nil
}

// connect opens ClickHouse, and makes the table.
func connect(ctx context.Context, cfg Config) (clickhouse.Conn, error) {
	options, err := parse(cfg.Points)
	if err != nil {
		return nil, err
	}
	options.Auth.Password = cmp.Or(options.Auth.Password, cfg.Password)
	options.MaxOpenConns, options.MaxIdleConns = connections, connections
	options.DialTimeout = 5 * time.Second
	conn, err := driver.Open(options)
	if err != nil {
		return nil, fmt.Errorf("open ClickHouse: %w", err)
	}
	if err := conn.Exec(ctx, curve.Create(table)); err != nil {
		return nil, errors.Join(unreachable(err), conn.Close())
	}
	version, err := conn.ServerVersion()
	if err != nil {
		return nil, errors.Join(unreachable(err), conn.Close())
	}
	if version.Version.Major < asyncSince {
		return conn, nil
	}
	if err := conn.Close(); err != nil {
		return nil, unreachable(err)
	}
	options.Settings = driver.Settings{"async_insert": 0} // it is a default of new servers
	conn, err = driver.Open(options)
	if err != nil {
		return nil, fmt.Errorf("open ClickHouse: %w", err)
	}
	return conn, nil
}

// asyncSince is the first version whose servers may answer before rows are stored.
const asyncSince = 21

func unreachable(err error) error {
	var known *driver.Exception
	if errors.As(err, &known) {
		return fmt.Errorf("make the table of points: %w", err)
	}
	return model.Errorf(model.CodeUnavailable, "ClickHouse cannot be reached: %v", err)
}

// Close implements [store.Engine]. What is written waits for nothing here: an answer was given
// when it was stored.
func (e *Engine) Close() error {
	if e.closed.Swap(true) {
		return nil
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
