package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog/tables"
)

// A database whose owner's name begins so has a copy of the owner's catalog. A server takes it
// only when its data folder has no catalog and says that there is one elsewhere.
const copyFor = "copy for "

// Arrive fills a database with the catalog of an owner, in one transaction. It then has a copy,
// until [DB.Claim] makes it the catalog. A database that has another's rows is refused with
// CodeConflict.
func (d *DB) Arrive(ctx context.Context, owner, place string, fill func(tables.Target, []tables.Table) error) error {
	err := d.whole(ctx, func(w *whole) error {
		if err := w.reserve(ctx, owner, place); err != nil {
			return err
		}
		if err := fill(w, w.tables()); err != nil {
			return err
		}
		return w.setCounters(ctx)
	})
	if err == nil { // else the first lists would be planned for empty tables
		_, err = d.writer.ExecContext(ctx, `ANALYZE `+strings.Join(tables.Names(), ", "))
	}
	return d.Failure("take in a catalog", err)
}

// Depart gives the rows of an owner's catalog to read. When read has taken them, the database
// has a copy only.
func (d *DB) Depart(ctx context.Context, owner, place string, read func(tables.Source, []tables.Table) error) error {
	return d.Failure("hand over a catalog", d.whole(ctx, func(w *whole) error {
		done, err := w.tx.ExecContext(ctx, `UPDATE owner SET name = ? WHERE name IN (?, ?)`, copyFor+owner, copyFor+owner, owner)
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, errNotHere(place))
		}
		return read(w, w.tables())
	}))
}

// Copied says whether a database has a copy of an owner's catalog, which no server has used.
func (d *DB) Copied(ctx context.Context, owner string) (yes bool, err error) {
	err = d.writer.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM owner WHERE name = ?)`, copyFor+owner).Scan(&yes)
	return yes, d.Failure("look for a copy of the catalog", err)
}

func errNotHere(place string) error {
	return model.Errorf(model.CodeConflict, "%s does not have the catalog of this data folder", place).
		WithHint("Look at the address: its database and its search_path. The file catalog.elsewhere of the data folder names the database.")
}

// whole is a database as [tables.Move] reads and writes it, in a transaction of a connection.
type whole struct {
	conn   *sql.Conn
	tx     *sql.Tx
	layout map[string][]column
}

var _ tables.Target = (*whole)(nil)

// column is one of a table. Its kind is PostgreSQL's type, or kindKey.
type column struct {
	name, kind string
	counts     bool // it numbers rows
}

const kindKey = "key"

// whole runs work in a transaction that sees one moment.
func (d *DB) whole(ctx context.Context, work func(*whole) error) (err error) {
	conn, err := d.writer.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	w := &whole{conn: conn, tx: tx}
	// The other side may be slow.
	if err := tables.Exec(ctx, tx, `SET LOCAL idle_in_transaction_session_timeout = 0`); err != nil {
		return err
	}
	if err := w.read(ctx); err != nil {
		return err
	}
	if err := work(w); err != nil {
		return err
	}
	return tx.Commit()
}

// read reads which columns there are.
func (w *whole) read(ctx context.Context) error {
	type found struct {
		table string
		column
	}
	all, err := tables.Collect(ctx, w.tx, func(rows *sql.Rows) (f found, err error) {
		return f, rows.Scan(&f.table, &f.name, &f.kind, &f.counts)
	}, `SELECT table_name::text, column_name::text, data_type::text, is_identity = 'YES' FROM information_schema.columns
		WHERE table_schema = current_schema() ORDER BY table_name, ordinal_position`)
	w.layout = map[string][]column{}
	for _, f := range all {
		if f.table == "attributes" && f.name == "key" {
			f.kind = kindKey
		}
		w.layout[f.table] = append(w.layout[f.table], f.column)
	}
	return err
}

func (w *whole) tables() (all []tables.Table) {
	for _, name := range tables.Names() {
		t := tables.Table{Name: name}
		for _, c := range w.layout[name] {
			t.Columns = append(t.Columns, c.name)
		}
		all = append(all, t)
	}
	return all
}

// reserve makes an empty database that of an owner's copy. What an earlier move left is
// deleted: no server has used it.
func (w *whole) reserve(ctx context.Context, owner, place string) error {
	// Of two that come at once the second waits here.
	done, err := w.tx.ExecContext(ctx, `INSERT INTO owner (id, name) VALUES (0, ?) ON CONFLICT DO NOTHING`, copyFor+owner)
	if err != nil {
		return err
	}
	fresh, err := done.RowsAffected()
	if err != nil {
		return err
	}
	var name string
	if err := w.tx.QueryRowContext(ctx, `SELECT name FROM owner`).Scan(&name); err != nil {
		return err
	}
	switch {
	case name == owner:
		return model.Errorf(model.CodeConflict, "%s has runs of this data folder already: a server used it", place).
			WithHint("Two catalogs of one folder cannot be joined. To go on with the database, move catalog.db away and write the address into catalog.elsewhere; to go on with the file, name an empty database.")
	case name != copyFor+owner:
		return errOfAnother(place)
	case fresh > 0:
		if err := w.mustBeEmpty(ctx, place); err != nil {
			return err
		}
	}
	return tables.Exec(ctx, w.tx, `TRUNCATE `+strings.Join(tables.Names(), ", "))
}

func (w *whole) mustBeEmpty(ctx context.Context, place string) error {
	for _, name := range tables.Names() {
		var full bool
		if err := w.tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM `+name+`)`).Scan(&full); err != nil {
			return err
		}
		if full {
			return model.Errorf(model.CodeConflict, "%s is not empty: its table %s has rows", place, name).
				WithHint("Name an empty database, or a schema of its own: CREATE SCHEMA NAME, and ?search_path=NAME in the address.")
		}
	}
	return nil
}

// Rows implements [tables.Source].
func (w *whole) Rows(ctx context.Context, t tables.Table) iter.Seq2[[]any, error] {
	columns := w.layout[t.Name]
	return func(yield func([]any, error) bool) {
		rows, err := w.tx.QueryContext(ctx, `SELECT `+strings.Join(t.Columns, ", ")+` FROM `+t.Name)
		if err != nil {
			yield(nil, err)
			return
		}
		defer rows.Close()
		row, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range row {
			into[i] = &row[i]
		}
		for rows.Next() {
			err := rows.Scan(into...)
			for i, c := range columns {
				row[i] = c.value(row[i])
			}
			if t.Name == "attributes" {
				realKey(columns, row)
			}
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
func (w *whole) Count(ctx context.Context, t tables.Table) (n int64, err error) {
	err = w.tx.QueryRowContext(ctx, `SELECT count(*) FROM `+t.Name).Scan(&n)
	return n, err
}

// realKey makes a real of the key of a real that is whole: a key does not tell.
func realKey(columns []column, row []any) {
	var kind any
	for i, c := range columns {
		switch c.name {
		case "type":
			kind = row[i]
		case "key":
			if n, ok := row[i].(int64); ok && kind == string(model.TypeFloat) {
				row[i] = float64(n)
			}
		}
	}
}

// value makes of what PostgreSQL gives what SQLite would.
func (c column) value(stored any) any {
	switch c.kind {
	case kindKey:
		return decodeKey(stored)
	case "numeric":
		return decodeNumber(stored)
	case "boolean":
		if stored == true {
			return int64(1)
		}
		return int64(0)
	}
	return stored
}

// stored makes of what SQLite gives what PostgreSQL takes.
func (c column) stored(value any) any {
	switch c.kind {
	case kindKey:
		if key := encodeKey(value); key != nil {
			return key
		}
		return nil
	case "numeric":
		return encodeNumber(value)
	case "boolean":
		return value != int64(0)
	}
	if text, ok := value.(string); ok {
		return escape(text)
	}
	return value
}

// portion is how many rows are put at a time: PostgreSQL notes each, to look for those it names.
const portion = 10_000

// Put implements [tables.Target].
func (w *whole) Put(ctx context.Context, t tables.Table, rows iter.Seq2[[]any, error]) error {
	next, stop := iter.Pull2(rows)
	defer stop()
	s := &stream{columns: w.layout[t.Name], next: next}
	for !s.ended && s.err == nil {
		s.left = portion
		err := w.conn.Raw(func(c any) error {
			inner, ok := c.(*conn)
			if !ok {
				return fmt.Errorf("the driver's connection is a %T", c)
			}
			_, err := inner.Conn.Conn().CopyFrom(ctx, pgx.Identifier{t.Name}, t.Columns, s)
			return err
		})
		if err != nil {
			return err
		}
	}
	return s.err
}

// stream is rows as pgx copies them.
type stream struct {
	columns []column
	next    func() ([]any, error, bool)
	left    int
	ended   bool
	row     []any
	err     error
}

// Next implements [pgx.CopyFromSource].
func (s *stream) Next() bool {
	if s.left == 0 {
		return false
	}
	s.left--
	row, err, ok := s.next()
	if s.ended, s.err = !ok, err; !ok || err != nil {
		return false
	}
	s.row = slices.Grow(s.row[:0], len(row))
	for i, v := range row {
		s.row = append(s.row, s.columns[i].stored(v))
	}
	return true
}

// Values implements [pgx.CopyFromSource].
func (s *stream) Values() ([]any, error) { return s.row, nil }

// Err implements [pgx.CopyFromSource].
func (s *stream) Err() error { return s.err }

// setCounters lets new rows have the numbers that follow.
func (w *whole) setCounters(ctx context.Context) error {
	for _, name := range tables.Names() {
		for _, c := range w.layout[name] {
			if !c.counts || name == "artifacts" {
				continue
			}
			query := fmt.Sprintf(`SELECT setval(pg_get_serial_sequence('%s', '%s'), coalesce(max(%[2]s), 0) + 1, false) FROM %[1]s`, name, c.name)
			if err := tables.Exec(ctx, w.tx, query); err != nil {
				return err
			}
		}
	}
	return nil
}

// LastArtifact implements [tables.Source].
func (w *whole) LastArtifact(ctx context.Context) (last int64, err error) {
	err = w.tx.QueryRowContext(ctx, `SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM artifacts_id_seq`).Scan(&last)
	return last, err
}

// SetLastArtifact implements [tables.Target].
func (w *whole) SetLastArtifact(ctx context.Context, last int64) error {
	return tables.Exec(ctx, w.tx, `SELECT setval('artifacts_id_seq', greatest(?, (SELECT coalesce(max(id), 0) FROM artifacts)) + 1, false)`, last)
}
