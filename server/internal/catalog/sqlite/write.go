package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"github.com/kymogram/kymogram/server/internal/catalog/queue"
	"github.com/kymogram/kymogram/server/internal/catalog/tables"
)

// write runs f in a write transaction, with those that come at the same time; it is durable
// when write returns nil. When the transaction fails, so do all that share it.
func (d *DB) write(ctx context.Context, act string, f func(tx tables.Tx) error) error {
	return d.writes.Do(ctx, act, f)
}

// commit runs writes in one transaction and tells each how it went.
func (d *DB) commit(all []*queue.Write) {
	// Not to be cut with the first caller.
	err := d.transact(context.WithoutCancel(all[0].Context()), all)
	for _, w := range all {
		if err != nil {
			w.Err = err
		}
		w.Err = d.failure(w.Act, w.Err)
	}
}

// transact is an error when nothing of any of the writes was stored.
func (d *DB) transact(ctx context.Context, all []*queue.Write) error {
	tx := d.tx
	if err := d.begin(ctx); err != nil {
		return err
	}
	d.touched.forget()
	if len(all) == 1 {
		// Without a savepoint, for which SQLite would keep a copy of each page.
		if all[0].Err = all[0].Run(tx); all[0].Err != nil {
			return tx.abort(ctx, nil)
		}
		return d.finish(ctx)
	}
	for _, w := range all {
		if err := tables.Exec(ctx, tx, `SAVEPOINT w`); err != nil {
			return tx.abort(ctx, err)
		}
		if w.Err = w.Run(tx); w.Err != nil {
			// It fails where SQLite rolled back all of them, as on a full disk.
			if err := tables.Exec(ctx, tx, `ROLLBACK TO w`); err != nil {
				return tx.abort(ctx, errors.Join(d.failure(w.Act, w.Err), err))
			}
		}
		if err := tables.Exec(ctx, tx, `RELEASE w`); err != nil {
			return tx.abort(ctx, err)
		}
	}
	return d.finish(ctx)
}

// finish mirrors what the transaction changed and commits it. The mirror comes
// first, and what it has is done: a database that refuses it catches up before its
// next transaction, or at the next start.
func (d *DB) finish(ctx context.Context) error {
	rows, err := d.touched.read(ctx, d.tx)
	if err != nil {
		return d.tx.abort(ctx, err)
	}
	if len(rows) > 0 {
		c := d.mirror.Prepare(rows)
		if err := setPosition(ctx, d.tx, c.At); err != nil {
			return d.tx.abort(ctx, err)
		}
		if err := d.mirror.Append(ctx, c); err != nil {
			return d.tx.abort(ctx, err)
		}
		d.note(c.At)
		d.behind = append(d.behind, missed{c.At, c.Rows()})
	}
	if err := tables.Exec(ctx, d.tx, `COMMIT`); err != nil {
		return d.tx.abort(ctx, err)
	}
	d.behind = nil
	return nil
}

// transaction runs statements on the connection that writes. Each is prepared
// once: parsing took half of the time of an open.
type transaction struct {
	conn     *sql.Conn
	prepared map[string]*sql.Stmt
}

// maxPrepared bounds the statements that are kept. There are about fifty.
const maxPrepared = 500

func (t *transaction) prepare(ctx context.Context, query string) (*sql.Stmt, error) {
	if s := t.prepared[query]; s != nil {
		return s, nil
	}
	if len(t.prepared) >= maxPrepared {
		t.forget()
	}
	s, err := t.conn.PrepareContext(ctx, query)
	if err == nil {
		t.prepared[query] = s
	}
	return s, err
}

func (t *transaction) forget() {
	for _, s := range t.prepared {
		_ = s.Close() // only memory
	}
	clear(t.prepared)
}

// close gives the connection back. SQLite moves its log into the database only
// when the last connection without statements closes.
func (t *transaction) close() error {
	t.forget()
	if err := t.conn.Close(); !errors.Is(err, sql.ErrConnDone) {
		return err
	}
	return nil
}

// ExecContext is that of [sql.Tx].
func (t *transaction) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	s, err := t.prepare(ctx, query) //nolint:sqlclosecheck // it is kept
	if err != nil {
		return nil, err
	}
	return s.ExecContext(ctx, args...)
}

// QueryContext is that of [sql.Tx].
func (t *transaction) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	s, err := t.prepare(ctx, query) //nolint:sqlclosecheck // it is kept
	if err != nil {
		return nil, err
	}
	return s.QueryContext(ctx, args...)
}

// QueryRowContext is that of [sql.Tx].
func (t *transaction) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	s, err := t.prepare(ctx, query) //nolint:sqlclosecheck // it is kept
	if err != nil {
		return t.conn.QueryRowContext(ctx, query, args...) // says it
	}
	return s.QueryRowContext(ctx, args...)
}

// abort ends a transaction that failed, unless SQLite did, and passes on why.
func (t *transaction) abort(ctx context.Context, err error) error {
	_ = tables.Exec(ctx, t, `ROLLBACK`) // fails when there is none
	return err
}
