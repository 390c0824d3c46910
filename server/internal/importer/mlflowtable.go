package importer

import (
	"context"
	"database/sql"
)

// mlflowTable gives the rows of one run after the other. Stores of older MLflow have no index
// of runs: there a query for each run would read all rows each time. Such a table is read once,
// sorted by SQLite, as far as the runs that are asked for rise. Reads come one at a time.
type mlflowTable struct {
	path, name, columns, order string
	indexes                    int // that begin with the run

	asked string // the run that was read last, "" where the next read begins anew
	db    *sql.DB
	rows  *sql.Rows // at a row of the run at; nil after the last
	at    string
}

// each gives the rows of a run in the table's order. Scan reads one.
func (t *mlflowTable) each(ctx context.Context, run string, use func(scan func(to ...any) error) error) (err error) {
	switch {
	case t.indexes > 0:
		defer t.close()
		err = t.open(ctx, "run_uuid = ?", run)
	case t.asked == "" || run <= t.asked:
		t.close()
		err = t.open(ctx, "run_uuid IS NOT NULL")
	}
	t.asked = run
	for err == nil && t.rows != nil && t.at < run {
		err = t.next()
	}
	for err == nil && t.rows != nil && t.at == run {
		if err = use(t.scan); err == nil {
			err = t.next()
		}
	}
	if err != nil {
		t.close()
		t.asked = ""
	}
	return err
}

// open begins at the first row that holds.
func (t *mlflowTable) open(ctx context.Context, holds string, args ...any) (err error) {
	if t.db, err = openSQLite(t.path); err != nil {
		return err
	}
	query := "SELECT CAST(run_uuid AS TEXT), " + t.columns + " FROM " + t.name + " WHERE " + holds + " ORDER BY 1 COLLATE BINARY, " + t.order
	if t.rows, err = t.db.QueryContext(ctx, query, args...); err != nil { //nolint:rowserrcheck // next does
		return err
	}
	return t.next()
}

// passed is a column that is not read.
type passed struct{}

func (passed) Scan(any) error { return nil }

// next goes to the next row.
func (t *mlflowTable) next() error {
	if !t.rows.Next() {
		err := t.rows.Err()
		t.close()
		return err
	}
	columns, err := t.rows.Columns()
	if err != nil {
		return err
	}
	to := make([]any, len(columns))
	for i := range to {
		to[i] = passed{}
	}
	to[0] = &t.at
	return t.rows.Scan(to...)
}

// scan reads the row, without its run.
func (t *mlflowTable) scan(to ...any) error {
	return t.rows.Scan(append([]any{passed{}}, to...)...)
}

func (t *mlflowTable) close() {
	if t.rows != nil {
		_ = t.rows.Close() // it was only read
	}
	if t.db != nil {
		_ = t.db.Close()
	}
	t.rows, t.db = nil, nil
}
