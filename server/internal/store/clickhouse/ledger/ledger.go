// Package ledger keeps, in PostgreSQL, what was decided about runs whose points lie elsewhere:
// which batches count, attempts, writers and their marks, series, starts of relative steps,
// refusals, and updates that the catalog has not confirmed.
//
// In go the changes of a group of batches ([Ledger.Commit]); out comes a run as it stands
// ([Ledger.Take]), and what reads need ([Ledger.Facts]).
//
// Invariants:
//   - Who changes a run holds its lease. [Ledger.Take] gives the lease a new epoch; a commit with
//     an older one changes nothing. The check and the change are one transaction.
//   - A change has a log position, epoch<<40 | number. The numbers that an epoch commits are
//     1…last without a gap, so that the committed positions of a run are one span for each epoch.
//   - After Take returns, no commit of an earlier epoch can happen any more: it is done or never.
//
// Start with [Ledger.Take], then [Ledger.Commit].
package ledger

import (
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/psql"
)

//go:embed migrations/*.sql
var migrations embed.FS

// versions is the table that counts migrations. The catalog counts its own in another table.
const versions = "ledger_version"

// Options are how code opens a ledger.
type Options struct {
	// Node names the data folder of this server. Its lives before are over: updates that they left
	// need not wait until they count as gone.
	Node string
	// Hold is how long nobody else takes a lease that was taken.
	Hold time.Duration
	// Connections is how many there are at most.
	Connections int32
	// Shards is over how many new runs are spread; 0 is 1.
	Shards int
	// Moves is who moves points, see move.go; nil for a server.
	Moves *Mover
}

// Ledger is safe for parallel use.
type Ledger struct {
	pool   *pgxpool.Pool
	folder []byte
	holder []byte // names this life of the server; a copied data folder has another
	hold   time.Duration
	shards int
	secret []byte // of the store
	counts counts
}

// Open connects to a database, see [psql.Parse], and migrates it.
func Open(ctx context.Context, place string, o Options) (*Ledger, error) {
	if _, err := psql.Parse(place); err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(place)
	if err != nil {
		return nil, fmt.Errorf("read the address: %w", err)
	}
	psql.Settle(config.ConnConfig)
	config.MaxConns = o.Connections
	config.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, `SET idle_in_transaction_session_timeout = '60s'; SET jit = off`)
		return err
	}
	if err := psql.Migrate(ctx, config.ConnConfig, migrations, versions); err != nil {
		return nil, failure("open the ledger", err)
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, failure("open the ledger", err)
	}
	l := &Ledger{pool: pool, folder: []byte(o.Node), holder: make([]byte, 16), hold: o.Hold, shards: max(o.Shards, 1)}
	_, _ = rand.Read(l.holder) // it never fails
	if err := errors.Join(l.begin(ctx), l.identify(ctx, o.Moves)); err != nil {
		pool.Close()
		return nil, err
	}
	return l, nil
}

// Close closes the connections.
func (l *Ledger) Close() { l.pool.Close() }

// write does a transaction once. The outcome of one whose commit got no answer is
// [psql.Unknown].
func (l *Ledger) write(ctx context.Context, act string, f func(tx pgx.Tx) error) error {
	tx, err := l.pool.Begin(ctx)
	if err != nil {
		return failure(act, err)
	}
	if err := f(tx); err != nil {
		_ = tx.Rollback(context.WithoutCancel(ctx)) // the connection may be gone
		return failure(act, err)
	}
	if err := tx.Commit(ctx); err != nil {
		var said *pgconn.PgError
		if errors.As(err, &said) && said.Code[:2] != "08" && said.Code[:2] != "57" || errors.Is(err, pgx.ErrTxCommitRollback) {
			return failure(act, err)
		}
		return failure(act, psql.Unknown{Err: err})
	}
	return nil
}

// read sees one moment.
func (l *Ledger) read(ctx context.Context, f func(tx pgx.Tx) error) error {
	tx, err := l.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return failure("read the ledger", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // it changed nothing
	return failure("read the ledger", f(tx))
}

// failure names the act, and gives errors that a caller can act on a code.
func failure(act string, err error) error {
	var known *model.Error
	var unknown psql.Unknown
	var said *pgconn.PgError
	switch {
	case err == nil || errors.As(err, &known):
		return err
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		if !errors.As(err, &unknown) {
			return &Failed{Act: act, Told: model.Errorf(model.CodeTimeout, "%s: PostgreSQL did not answer in time", act), err: err}
		}
	case errors.As(err, &said) && said.Code == "53100":
		return &Failed{Act: act, Told: model.Errorf(model.CodeDiskFull, "%s: PostgreSQL's disk is full", act).WithHint("Free space there; writing goes on by itself."), err: err}
	case errors.As(err, &said) && !psql.Again(err) && !errors.As(err, &unknown):
		return fmt.Errorf("%s: %w", act, err)
	}
	return &Failed{Act: act, Told: model.Errorf(model.CodeUnavailable, "%s: PostgreSQL cannot be reached", act).
		WithHint("Look whether it runs and takes writes; clients keep what was not acknowledged, and send it again."), err: err}
}

// Failed is an act that may succeed when it is tried again.
type Failed struct {
	Act  string
	Told *model.Error // what a caller over the network is told
	err  error
}

// Error implements error.
func (f *Failed) Error() string { return f.Act + ": " + f.err.Error() }

// Unwrap gives the answer for callers, and the reason.
func (f *Failed) Unwrap() []error { return []error{f.Told, f.err} }
