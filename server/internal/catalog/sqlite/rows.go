package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	driver "modernc.org/sqlite"
	sqlitelib "modernc.org/sqlite/lib"

	"github.com/kymogram/kymogram/server/internal/catalog/mirror"
	"github.com/kymogram/kymogram/server/internal/catalog/tables"
)

// mirrored is a table whose rows the mirror has: every table of the migrations.
// A new kind of record joins by being one. Its key must be its first columns.
type mirrored struct {
	name           string
	keys           int // columns of its primary key
	key            []string
	get, put, drop string
}

// unmirrored are goose's table of migrations, the position itself, and what the store can
// give again.
const unmirrored = `'goose_db_version', 'position', 'summaries', 'summarised'`

func mirroredTables(ctx context.Context, q tables.Querier) (map[string]*mirrored, error) {
	type column struct {
		table, name string
		key         int
	}
	columns, err := tables.Collect(ctx, q, func(rows *sql.Rows) (c column, err error) {
		return c, rows.Scan(&c.table, &c.name, &c.key)
	}, `SELECT t.name, c.name, c.pk FROM sqlite_schema t, pragma_table_info(t.name) c
		WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite\_%' ESCAPE '\' AND t.name NOT IN (`+unmirrored+`) ORDER BY t.name, c.cid`)
	if err != nil {
		return nil, err
	}
	names := map[string][]string{}
	known := map[string]*mirrored{}
	for i, c := range columns {
		t := known[c.table]
		if t == nil {
			t = &mirrored{name: c.table}
			known[c.table] = t
		}
		if c.key > 0 {
			if t.keys++; c.key != t.keys || len(names[c.table]) != t.keys-1 {
				return nil, fmt.Errorf("the key of the table %s is not its first columns", c.table)
			}
		}
		names[c.table] = append(names[c.table], c.name)
		if i == len(columns)-1 || columns[i+1].table != c.table {
			t.statements(names[c.table])
		}
	}
	return known, nil
}

func (t *mirrored) statements(columns []string) {
	for _, column := range columns[:t.keys] {
		t.key = append(t.key, `"`+column+`"`)
	}
	where := ` WHERE "` + strings.Join(columns[:t.keys], `" = ? AND "`) + `" = ?`
	t.get = `SELECT * FROM "` + t.name + `"` + where
	t.drop = `DELETE FROM "` + t.name + `"` + where
	t.put = `INSERT OR REPLACE INTO "` + t.name + `" VALUES (?` + strings.Repeat(`, ?`, len(columns)-1) + `)`
}

func (t *mirrored) row(values []any) (mirror.Row, error) {
	key, err := mirror.AppendValues(nil, values[:t.keys])
	if err != nil {
		return mirror.Row{}, fmt.Errorf("table %s: %w", t.name, err)
	}
	all, err := mirror.AppendValues(make([]byte, 0, 128), values)
	return mirror.Row{Table: t.name, Key: key, Values: all}, err
}

// scanValues reads a row of any table.
func scanValues(rows *sql.Rows) ([]any, error) {
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	values, into := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		into[i] = &values[i]
	}
	return values, rows.Scan(into...)
}

// everyRow reads all tables.
func everyRow(ctx context.Context, q tables.Querier, known map[string]*mirrored) iter.Seq2[mirror.Row, error] {
	return func(yield func(mirror.Row, error) bool) {
		for _, name := range sortedNames(known) {
			if !known[name].each(ctx, q, yield) {
				return
			}
		}
	}
}

func sortedNames(known map[string]*mirrored) (names []string) {
	for name := range known {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (t *mirrored) each(ctx context.Context, q tables.Querier, yield func(mirror.Row, error) bool) bool {
	rows, err := q.QueryContext(ctx, `SELECT * FROM "`+t.name+`"`)
	if err != nil {
		return yield(mirror.Row{}, err)
	}
	defer rows.Close()
	for rows.Next() {
		values, err := scanValues(rows)
		var row mirror.Row
		if err == nil {
			row, err = t.row(values)
		}
		if !yield(row, err) || err != nil {
			return false
		}
	}
	if err := rows.Err(); err != nil {
		return yield(mirror.Row{}, err)
	}
	return true
}

// touched are the rows that a transaction changed so far, in order.
type touched struct {
	tables map[string]*mirrored
	rows   []touch
	err    error
}

type touch struct {
	table *mirrored
	key   []any
}

// watch collects what a connection changes, cascades of foreign keys too.
func (t *touched) watch(conn *sql.Conn) error {
	return conn.Raw(func(c any) error {
		hooks, ok := c.(driver.HookRegisterer)
		if !ok {
			return fmt.Errorf("the driver %T has no hooks", c)
		}
		hooks.RegisterPreUpdateHook(t.see)
		return nil
	})
}

func (t *touched) see(d driver.SQLitePreUpdateData) {
	table := t.tables[d.TableName]
	if table == nil || t.err != nil {
		return
	}
	if d.Op != sqlitelib.SQLITE_INSERT {
		t.add(table, d.Old)
	}
	if d.Op != sqlitelib.SQLITE_DELETE {
		t.add(table, d.New)
	}
}

func (t *touched) add(table *mirrored, read func(...any) error) {
	key := make([]any, table.keys)
	t.err = errors.Join(t.err, read(key...))
	t.rows = append(t.rows, touch{table, key})
}

// forget begins a new transaction.
func (t *touched) forget() { t.rows, t.err = t.rows[:0], nil }

// read reads the rows as they are now, each once, by their last change.
func (t *touched) read(ctx context.Context, tx *transaction) (out []mirror.Row, err error) {
	seen := make(map[string]bool, len(t.rows))
	for _, touch := range slices.Backward(t.rows) {
		key, err := mirror.AppendValues(nil, touch.key)
		if err != nil {
			return nil, err
		}
		id := touch.table.name + "\x00" + string(key)
		if seen[id] {
			continue
		}
		seen[id] = true
		row, err := touch.read(ctx, tx, key)
		if err != nil {
			return nil, fmt.Errorf("mirror the table %s: %w", touch.table.name, err)
		}
		out = append(out, row)
	}
	slices.Reverse(out)
	return out, t.err
}

func (t *touch) read(ctx context.Context, tx *transaction, key []byte) (mirror.Row, error) {
	found, err := tables.Collect(ctx, tx, scanValues, t.table.get, t.key...)
	if err != nil {
		return mirror.Row{}, err
	}
	if len(found) == 0 {
		return mirror.Row{Table: t.table.name, Key: key}, nil
	}
	return t.table.row(found[0])
}

// store writes a row of the mirror into a database.
func (t *mirrored) store(ctx context.Context, tx *transaction, r mirror.Row) error {
	query, bytes := t.put, r.Values
	if r.Values == nil {
		query, bytes = t.drop, r.Key
	}
	values, err := mirror.Values(bytes)
	if err != nil {
		return fmt.Errorf("read a row of %s: %w", t.name, err)
	}
	return tables.Exec(ctx, tx, query, values...)
}

func storeRows(ctx context.Context, tx *transaction, known map[string]*mirrored, rows []mirror.Row) error {
	for _, r := range rows {
		t := known[r.Table]
		if t == nil {
			return fmt.Errorf("the mirror has rows of the table %q, which this database lacks", r.Table)
		}
		if err := t.store(ctx, tx, r); err != nil {
			return err
		}
	}
	return nil
}
