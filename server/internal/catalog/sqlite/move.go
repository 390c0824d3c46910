package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/kymogram/kymogram/server/internal/catalog/tables"
)

// Hold gives the rows of a catalog to read. Nobody writes to it meanwhile, nor does another
// process.
func (d *DB) Hold(ctx context.Context, read func(tables.Source) error) error {
	defer d.writes.Turn()()
	if err := d.begin(ctx); err != nil {
		return d.failure("hold the catalog", err)
	}
	return d.failure("read the catalog", d.tx.abort(context.WithoutCancel(ctx), read(whole{d.tx.conn})))
}

// Make writes a new catalog that fill gives its rows. It is durable, under a name that no server
// looks for, and its mirror is made when it is opened first.
func Make(ctx context.Context, path string, fill func(tables.Target) error) error {
	if err := makeEmpty(path); err != nil {
		return failure("make a catalog", err)
	}
	err := using(path, vfsName, loading, func(db *sql.DB) error {
		if err := migrate(ctx, db); err != nil {
			return err
		}
		return inTransaction(ctx, db, func(tx *transaction, _ map[string]*mirrored) error { return fill(whole{tx.conn}) })
	})
	if err == nil {
		err = syncFile(path)
	}
	return failure("make a catalog", err)
}

// whole is a database as [tables.Move] reads and writes it, in a transaction of a connection.
type whole struct{ conn *sql.Conn }

var _ tables.Target = whole{}

// Rows implements [tables.Source].
func (w whole) Rows(ctx context.Context, t tables.Table) iter.Seq2[[]any, error] {
	return func(yield func([]any, error) bool) {
		rows, err := w.conn.QueryContext(ctx, `SELECT `+strings.Join(t.Columns, ", ")+` FROM `+t.Name)
		if err != nil {
			yield(nil, err)
			return
		}
		defer rows.Close()
		for rows.Next() {
			row, err := scanValues(rows)
			if !yield(row, err) || err != nil {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(nil, err)
		}
	}
}

// Count implements [tables.Source].
func (w whole) Count(ctx context.Context, t tables.Table) (n int64, err error) {
	err = w.conn.QueryRowContext(ctx, `SELECT count(*) FROM `+t.Name).Scan(&n)
	return n, err
}

// Put implements [tables.Target].
func (w whole) Put(ctx context.Context, t tables.Table, rows iter.Seq2[[]any, error]) error {
	query := `INSERT INTO ` + t.Name + ` (` + strings.Join(t.Columns, ", ") + `) VALUES (?` + strings.Repeat(", ?", len(t.Columns)-1) + `)`
	put, err := w.conn.PrepareContext(ctx, query)
	if err != nil {
		return err
	}
	defer func() { _ = put.Close() }() // only memory
	for row, err := range rows {
		if err == nil {
			_, err = put.ExecContext(ctx, row...)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// LastArtifact implements [tables.Source].
func (w whole) LastArtifact(ctx context.Context) (last int64, err error) {
	err = w.conn.QueryRowContext(ctx, `SELECT seq FROM sqlite_sequence WHERE name = 'artifacts'`).Scan(&last)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return last, err
}

// SetLastArtifact implements [tables.Target].
func (w whole) SetLastArtifact(ctx context.Context, last int64) error {
	if last == 0 {
		return nil
	}
	for _, query := range []string{`DELETE FROM sqlite_sequence WHERE name = 'artifacts'`, fmt.Sprintf(`INSERT INTO sqlite_sequence (name, seq) VALUES ('artifacts', %d)`, last)} {
		if _, err := w.conn.ExecContext(ctx, query); err != nil {
			return err
		}
	}
	return nil
}
