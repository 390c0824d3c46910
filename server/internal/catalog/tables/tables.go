// Package tables is the catalog over tables of SQL: the rules of opening, updates, lists and
// filters. It is the same for every database; sqlite and postgres are those there are. They
// give the tables, connections, transactions and errors.
//
// The SQL is what both know, and a few words of SQLite's that package postgres takes out or
// has as functions: INDEXED BY and CROSS JOIN tell SQLite's planner what it does not see.
// Everything that a list filters or sorts by is a column with an index; what a run's status is
// follows from its writers and is kept beside it.
//
// Start reading in open.go (the rules of opening, in one transaction), apply.go (updates), and
// list.go (one query a page).
package tables

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"sync/atomic"
)

// DB is a catalog but for its Close. It implements the methods of [catalog.Catalog].
type DB struct {
	deletions atomic.Uint64 // see [DB.Deletions]
	reader    *Reads
	trees     *treeCache
	base      Database
	key       func(any) any
	number    func(any) any
	shown     string // what display names are near by
	inOrder   string // ends a query that gives what a list j names, in its order
}

// Database is where the tables are.
type Database interface {
	// Write runs f in a transaction, which is durable when it returns nil. f sees no change of
	// others that it could have seen only in part; it may run several times.
	Write(ctx context.Context, act string, f func(tx Tx) error) error
	// Failure gives an error the code that a caller can act on.
	Failure(act string, err error) error
}

// Options are what databases differ in.
type Options struct {
	Reader *Reads
	// Cache is how many bytes of trees are kept.
	Cache int64
	// Key reads what a [Key] was stored as, Number what a [Number] was; nil: they are as they were.
	Key, Number func(any) any
	// Sorts says that json_each comes in the order of its list only where the query says so.
	// SQLite always keeps it, and would hold all rows to sort them.
	Sorts bool
	// Shown is what an index has display names in the order of; "": the names themselves.
	Shown string
}

// New is the catalog in a database.
func New(base Database, o Options) *DB {
	d := &DB{reader: o.Reader, trees: newTreeCache(o.Cache), base: base, key: o.Key, number: o.Number, shown: cmp.Or(o.Shown, "r.display_name")}
	same := func(v any) any { return v }
	if d.key == nil {
		d.key = same
	}
	if d.number == nil {
		d.number = same
	}
	if o.Sorts {
		d.inOrder = ` ORDER BY j.key`
	}
	return d
}

func (d *DB) write(ctx context.Context, act string, f func(tx Tx) error) error {
	return d.base.Write(ctx, act, f)
}

func (d *DB) failure(act string, err error) error { return d.base.Failure(act, err) }

// Key is what an attribute sorts and compares by: nil, then integers and reals by their exact
// values, then texts.
type Key struct{ Of any }

// Value implements [driver.Valuer] for databases that order so themselves.
func (k Key) Value() (driver.Value, error) { return k.Of, nil }

// Number is an integer or a real of a summary, compared exactly; nil where there is none.
type Number struct{ Of any }

// Value implements [driver.Valuer] for databases that compare so themselves.
func (n Number) Value() (driver.Value, error) { return n.Of, nil }

// Querier is a database or a transaction.
type Querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Tx is a transaction that writes.
type Tx interface {
	Querier
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// turning is a querier whose callers take turns.
type turning interface {
	turn(ctx context.Context) (release func(), err error)
}

// Collect reads every row of a query with scan.
func Collect[T any](ctx context.Context, q Querier, scan func(*sql.Rows) (T, error), query string, args ...any) ([]T, error) {
	if r, ok := q.(turning); ok {
		release, err := r.turn(ctx)
		if err != nil {
			return nil, err
		}
		defer release()
	}
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return out, err
		}
		out = append(out, v)
	}
	return out, rows.Err()
}

// Deferring is a transaction that may send a statement together with what follows: an error
// may come then.
type Deferring interface {
	Defer(ctx context.Context, query string, args ...any) error
}

// Exec runs statements with the same arguments, for those without a result.
func Exec(ctx context.Context, tx Tx, query string, args ...any) error {
	if d, ok := tx.(Deferring); ok {
		return d.Defer(ctx, query, args...)
	}
	_, err := tx.ExecContext(ctx, query, args...)
	return err
}

// ScanText reads rows of one text.
func ScanText(rows *sql.Rows) (text string, err error) { return text, rows.Scan(&text) }
