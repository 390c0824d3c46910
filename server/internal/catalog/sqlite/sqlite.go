// Package sqlite is the embedded catalog: one SQLite file beside the store.
//
// Writes go through one connection (WAL mode, synchronous=FULL), those that wait
// in one transaction, reads through a small pool. Everything that a list filters
// or sorts by is a column with an index; what a run's status is follows from its
// writers and is kept beside it.
// The contract is package catalog, the suite that this passes catalogtest.
//
// Start reading in open.go (the rules of opening, in one transaction), apply.go
// (updates), and list.go (one query a page). write.go joins the writes that wait.
package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"time"

	"github.com/pressly/goose/v3"
	driver "modernc.org/sqlite"
	sqlitelib "modernc.org/sqlite/lib"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

//go:embed migrations/*.sql
var migrations embed.FS

// readers is how many reads run at once; lists are short, so few are enough.
const readers = 4

// readCacheKiB is the page cache of each reader: a search through 100,000 runs
// took a third of the time it takes with SQLite's own 2 MiB.
const readCacheKiB = 32 << 10

// busyTimeout is how long a connection waits for a lock of another process,
// such as a backup.
const busyTimeout = 5 * time.Second

// DB is a catalog in one file. It implements [catalog.Catalog].
type DB struct {
	writer *sql.DB
	reader *sql.DB
	tx     *transaction // of the writer's one connection
	writes writes
}

var _ catalog.Catalog = (*DB)(nil)

// Open opens or makes the database at path and migrates it. A file that a newer
// version of Kymogram has migrated is refused with CodeConflict.
func Open(ctx context.Context, path string) (*DB, error) {
	writer, err := connect(path, 1, "")
	if err != nil {
		return nil, err
	}
	if err := migrate(ctx, writer); err != nil {
		return nil, errors.Join(fmt.Errorf("catalog %s: %w", path, err), writer.Close())
	}
	conn, err := writer.Conn(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("catalog %s: %w", path, err), writer.Close())
	}
	reader, err := connect(path, readers, fmt.Sprintf("_pragma=query_only(1)&_pragma=cache_size(-%d)", readCacheKiB))
	if err != nil {
		return nil, errors.Join(err, conn.Close(), writer.Close())
	}
	return &DB{writer: writer, reader: reader, tx: &transaction{conn, map[string]*sql.Stmt{}}, writes: writes{turn: make(chan struct{}, 1)}}, nil
}

func connect(path string, conns int, options string) (*sql.DB, error) {
	dsn := "file:" + (&url.URL{Path: path}).EscapedPath() +
		"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=foreign_keys(1)&_pragma=trusted_schema(0)" +
		fmt.Sprintf("&_pragma=busy_timeout(%d)&%s", busyTimeout.Milliseconds(), options)
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, fmt.Errorf("open catalog %s: %w", path, err)
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db, nil
}

func migrate(ctx context.Context, db *sql.DB) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, files, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	have, want, err := provider.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("read the database's version: %w", err)
	}
	if have > want {
		return model.Errorf(model.CodeConflict, "the database has version %d, this program knows %d", have, want).
			WithHint("Start the version of kymogram that wrote this data folder, or a newer one.")
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrate the database: %w", err)
	}
	return nil
}

// Close closes both pools. Safe to call twice.
func (d *DB) Close() error {
	d.writes.turn <- struct{}{} // nobody is committing
	defer func() { <-d.writes.turn }()
	return errors.Join(d.tx.close(), d.reader.Close(), d.writer.Close())
}

// failure names the act and gives the errors that a caller can act on a code.
func failure(act string, err error) error {
	var known *model.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	var e *driver.Error
	if !errors.As(err, &e) {
		return fmt.Errorf("catalog: %s: %w", act, err)
	}
	switch e.Code() & 0xff {
	case sqlitelib.SQLITE_FULL:
		return model.Errorf(model.CodeDiskFull, "catalog: %s: the disk is full", act).WithHint("Free space; writing goes on by itself.")
	case sqlitelib.SQLITE_BUSY, sqlitelib.SQLITE_LOCKED:
		return model.Errorf(model.CodeUnavailable, "catalog: %s: the database is locked by another program", act)
	}
	return fmt.Errorf("catalog: %s: %w", act, err)
}

// querier is a database or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// collect reads every row of a query with scan.
func collect[T any](ctx context.Context, q querier, scan func(*sql.Rows) (T, error), query string, args ...any) ([]T, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, rows.Err()
}

// exec runs statements with the same arguments, for those without a result.
func exec(ctx context.Context, tx *transaction, query string, args ...any) error {
	_, err := tx.ExecContext(ctx, query, args...)
	return err
}
