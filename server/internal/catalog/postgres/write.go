package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog/queue"
	"github.com/kymogram/kymogram/server/internal/catalog/tables"
	"github.com/kymogram/kymogram/server/internal/psql"
)

const (
	// patience is how long a write is tried again that met others, or found no server that
	// takes writes: a failover takes seconds.
	patience = 20 * time.Second
	// firstPause and longestPause are between two tries.
	firstPause   = time.Millisecond
	longestPause = 500 * time.Millisecond
)

// Write implements [tables.Database]. Writes that come at once are one transaction: two of one
// server would else be taken for rivals, since their rows lie on the same pages, and be done
// again and again.
func (d *DB) Write(ctx context.Context, act string, f func(tx tables.Tx) error) error {
	return d.writes.Do(ctx, act, f)
}

// commit runs writes, again where they met another server's.
func (d *DB) commit(all []*queue.Write) {
	err := d.insist(all)
	for _, w := range all {
		if err != nil {
			w.Err = err
		}
		w.Err = d.Failure(w.Act, w.Err)
	}
}

func (d *DB) insist(all []*queue.Write) error {
	end := all[0].Come.Add(patience)
	duplicates := map[*queue.Write]string{}
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := d.try(all, duplicates)
		if err == nil || !psql.Again(err) || time.Now().After(end) || !slices.ContainsFunc(all, wanted) {
			return err
		}
		time.Sleep(pause/2 + rand.N(pause/2)) // those who met do not meet again
	}
}

func wanted(w *queue.Write) bool { return w.Context().Err() == nil }

// try is an error when nothing of any of the writes was stored. duplicates are the rows that
// each found there at the last try.
func (d *DB) try(all []*queue.Write, duplicates map[*queue.Write]string) (err error) {
	ctx := context.WithoutCancel(all[0].Context())
	conn, err := d.writer.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	tx, err := d.deferring(conn)
	if err != nil {
		return err
	}
	if err := tx.Defer(ctx, `BEGIN ISOLATION LEVEL SERIALIZABLE`); err != nil {
		return err
	}
	for _, w := range all {
		if w.Err = d.part(ctx, tx, w, len(all) > 1, duplicates); w.Err != nil && (psql.Again(w.Err) || len(all) == 1) {
			tx.rollback(ctx)
			if psql.Again(w.Err) {
				return w.Err
			}
			return nil
		}
	}
	err = tx.commit(ctx)
	if len(all) == 1 {
		err = twice(all[0], err, duplicates)
	}
	return err
}

// part runs one write of a transaction. Where it fails, it is undone.
func (d *DB) part(ctx context.Context, tx *transaction, w *queue.Write, shared bool, duplicates map[*queue.Write]string) error {
	if shared {
		if err := tx.Defer(ctx, `SAVEPOINT w`); err != nil {
			return err
		}
	}
	err := w.Run(tx)
	if err == nil && shared {
		err = tx.flush(ctx) // what fails is this one's
	}
	err = twice(w, err, duplicates)
	if !shared || psql.Again(err) {
		return err
	}
	if err != nil {
		if _, undo := tx.ExecContext(ctx, `ROLLBACK TO w`); undo != nil {
			return undo
		}
	}
	return errors.Join(err, tx.Defer(ctx, `RELEASE w`))
}

// twice tells a row that was there when the try began from one that another made meanwhile.
func twice(w *queue.Write, err error, duplicates map[*queue.Write]string) error {
	var said *pgconn.PgError
	if !errors.As(err, &said) || said.Code != "23505" {
		return err
	}
	before, found := duplicates[w], said.ConstraintName+" "+said.Detail
	if duplicates[w] = found; found != before {
		return err
	}
	return model.Errorf(model.CodeConflict, "catalog: %s: there is another with the same value: %s", w.Act, said.ConstraintName)
}

// transaction is one on a connection. Statements without a result wait for the next with one,
// and are sent with it.
type transaction struct {
	*sql.Conn
	conn *conn
	self string // the server
}

var (
	_ tables.Tx        = (*transaction)(nil)
	_ tables.Deferring = (*transaction)(nil)
	_ tables.Telling   = (*transaction)(nil)
)

func (d *DB) deferring(c *sql.Conn) (tx *transaction, err error) {
	err = c.Raw(func(inner any) error {
		ours, ok := inner.(*conn)
		if !ok {
			return fmt.Errorf("the driver's connection is a %T", inner)
		}
		tx = &transaction{c, ours, d.self}
		return nil
	})
	return tx, err
}

// What is begun ends: the driver would cut the connection of a caller that is gone.

// ExecContext implements [tables.Tx].
func (t *transaction) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return t.Conn.ExecContext(context.WithoutCancel(ctx), query, args...)
}

// QueryContext implements [tables.Querier].
func (t *transaction) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return t.Conn.QueryContext(context.WithoutCancel(ctx), query, args...)
}

// QueryRowContext implements [tables.Querier].
func (t *transaction) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return t.Conn.QueryRowContext(context.WithoutCancel(ctx), query, args...)
}

// Defer implements [tables.Deferring].
func (t *transaction) Defer(_ context.Context, query string, args ...any) error {
	return t.conn.queue(query, args)
}

func (t *transaction) flush(ctx context.Context) error {
	if len(t.conn.waiting) == 0 {
		return nil
	}
	return t.Raw(func(any) error {
		_, err := t.conn.send(ctx, nil)
		return err
	})
}

func (t *transaction) rollback(ctx context.Context) {
	t.conn.waiting = nil
	_, _ = t.ExecContext(ctx, `ROLLBACK`) // the connection may be gone
}

func (t *transaction) commit(ctx context.Context) error {
	if err := t.Defer(ctx, `COMMIT`); err != nil {
		return err
	}
	err := t.flush(ctx)
	if err == nil {
		return nil
	}
	t.rollback(ctx)
	var said *pgconn.PgError
	if errors.As(err, &said) && !strings.HasPrefix(said.Code, "08") && !strings.HasPrefix(said.Code, "57") {
		return err
	}
	return psql.Unknown{Err: err} // also where a pool between lost the server
}

// Failure names the act and gives the errors that a caller can act on a code.
func (d *DB) Failure(act string, err error) error {
	var known *model.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("catalog: %s: %w", act, err)
	}
	var unknown psql.Unknown
	var said *pgconn.PgError
	switch {
	case errors.As(err, &said) && said.Code == "53100":
		return model.Errorf(model.CodeDiskFull, "catalog: %s: PostgreSQL's disk is full", act).WithHint("Free space there; writing goes on by itself.")
	case errors.As(err, &unknown), psql.Lost(err):
		d.log.Error("PostgreSQL cannot be reached", "act", act, "err", err)
		return model.Errorf(model.CodeUnavailable, "catalog: %s: PostgreSQL cannot be reached", act).
			WithHint("Look whether it runs and takes writes; clients keep what was not acknowledged, and send it again.")
	case errors.As(err, &said) && psql.Again(err):
		return model.Errorf(model.CodeUnavailable, "catalog: %s: PostgreSQL said: %s", act, said.Message).WithHint("Try again.")
	}
	return fmt.Errorf("catalog: %s: %w", act, err)
}
