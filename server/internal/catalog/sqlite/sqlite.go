// Package sqlite is the embedded catalog: one SQLite file beside the store, and a
// mirror of its rows.
//
// Writes go through one connection (WAL mode), those that wait in one transaction,
// reads through a small pool. The mirror gets the changed rows with one sync before
// SQLite commits them; it is what makes a write durable. Every page ends with a
// checksum.
// The contract is package catalog, the suite that this passes catalogtest.
//
// The rules and queries are those of package tables. Start reading in write.go, which joins
// the writes that wait; mirroring.go keeps the mirror, heal.go makes both agree at the start,
// page.go and vfs.go hold the checksums.
package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"sync/atomic"
	"time"

	"github.com/pressly/goose/v3"
	driver "modernc.org/sqlite"
	sqlitelib "modernc.org/sqlite/lib"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/catalog/mirror"
	"github.com/kymogram/kymogram/server/internal/catalog/queue"
	"github.com/kymogram/kymogram/server/internal/catalog/still"
	"github.com/kymogram/kymogram/server/internal/catalog/tables"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// defaultCache is the page cache of all connections: a search through 100,000 runs took a third
// of the time it takes with SQLite's own 2 MiB.
const defaultCache = 160 << 20

// busyTimeout is how long a connection waits for a lock of another process,
// such as a backup.
const busyTimeout = 5 * time.Second

// DB is a catalog in one file, with its mirror in a folder beside it. It
// implements [catalog.Catalog].
type DB struct {
	*tables.DB

	path     string
	guest    bool
	markPath string
	cache    int64
	log      *slog.Logger
	writer   *sql.DB
	reader   *tables.Reads
	tx       *transaction // of the writer's one connection
	writes   *queue.Queue
	touched  touched

	// Whoever has the turn to write has these too.
	mirror *mirror.Mirror
	mark   *os.File // nil: there is none
	behind []missed // durable in the mirror, and refused by the database
	since  int      // rows changed since the file took over SQLite's log

	health Health
	// met is the first damaged page that was met while serving.
	met atomic.Pointer[model.Error]
}

var _ catalog.Catalog = (*DB)(nil)

// Options are how code opens a catalog.
type Options struct {
	Logger *slog.Logger
	// Guest uses a catalog that another process may own: nothing is repaired.
	Guest bool
	// Mark is a file apart from the catalog, where it notes how far it is; "" for none.
	Mark string
	// Cache is how many bytes of pages all readers together keep; 0: 160 MiB.
	Cache int64
}

// Open opens or makes the database at path as its owner, migrates it and repairs
// what its mirror can. A file that a newer version of Kymogram has migrated is
// refused with CodeConflict.
func Open(ctx context.Context, path string) (*DB, error) {
	return OpenWith(ctx, path, Options{})
}

// OpenWith is Open with options.
func OpenWith(ctx context.Context, path string, o Options) (*DB, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	d := &DB{path: path, guest: o.Guest, markPath: o.Mark, log: o.Logger, cache: cmp.Or(o.Cache, defaultCache)}
	d.writes = queue.New(d.commit, d.tidy)
	if err := registerVFS(); err != nil {
		return nil, err
	}
	if !o.Guest {
		if err := d.heal(ctx); err != nil {
			return nil, fmt.Errorf("catalog %s: %w", path, err)
		}
	}
	if err := d.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("catalog %s: %w", path, err), d.Close())
	}
	return d, nil
}

// open connects to a database that agrees with its mirror.
func (d *DB) open(ctx context.Context) (err error) {
	if d.writer, err = connect(d.path, 1, vfsName, writing+inMemory); err != nil {
		return err
	}
	if err := migrate(ctx, d.writer); err != nil {
		return err
	}
	conn, err := d.writer.Conn(ctx)
	if err != nil {
		return err
	}
	d.tx = &transaction{conn, map[string]*sql.Stmt{}}
	if d.touched.tables, err = mirroredTables(ctx, conn); err != nil {
		return err
	}
	if err := d.touched.watch(conn); err != nil {
		return err
	}
	reader, err := connect(d.path, tables.ReadConnections, vfsName, fmt.Sprintf(writing+"&_pragma=query_only(1)&_pragma=cache_size(-%d)", d.cache/tables.ReadConnections>>10))
	if err != nil {
		return err
	}
	d.reader = tables.NewReads(reader)
	d.DB = tables.New(base{d}, tables.Options{Reader: d.reader, Cache: d.cache / 4})
	if d.guest {
		d.openMark()
		return nil
	}
	return d.openMirror(ctx)
}

// How a connection writes. The mirror makes a write durable, so SQLite's log need
// not be synced at each commit; it is before the file takes it over.
const (
	writing = "_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)&_pragma=wal_autocheckpoint(0)&_pragma=journal_size_limit(16777216)&_pragma=foreign_keys(1)"
	// inMemory is where pages are kept as they were before a write of a transaction, up to
	// its end: SQLite writes them to a file else, a system call for each.
	inMemory = "&_pragma=temp_store(2)"
	// loading makes a file that nobody uses yet. Its rows come in any order.
	loading    = "_pragma=journal_mode(OFF)&_pragma=synchronous(OFF)&_pragma=foreign_keys(0)"
	loadingLog = "_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=wal_autocheckpoint(0)&_pragma=foreign_keys(0)"
)

// connect opens a pool.
func connect(path string, conns int, vfs, options string) (*sql.DB, error) {
	if vfs != "" {
		options += "&vfs=" + vfs
	}
	db, err := sql.Open("sqlite", fmt.Sprintf("file:%s?_pragma=trusted_schema(0)&_pragma=busy_timeout(%d)&%s", (&url.URL{Path: path}).EscapedPath(), busyTimeout.Milliseconds(), options))
	if err != nil {
		return nil, fmt.Errorf("open catalog %s: %w", path, err)
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db, nil
}

// using opens a database for one use.
func using(path, vfs, options string, use func(*sql.DB) error) (err error) {
	if err := registerVFS(); err != nil {
		return err
	}
	db, err := connect(path, 1, vfs, options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return use(db)
}

// reading opens a database that must exist, with checksums or from before them, and
// changes nothing. What use did is to be forgotten when it is called again.
func reading(path string, use func(*sql.DB) error) error {
	plain, err := isPlain(path)
	if err != nil {
		return err
	}
	if plain {
		return still.Look{VFS: still.SystemVFS()}.Read(path, use)
	}
	return looking(path, use)
}

// looking reads what may be damaged as a database with checksums.
func looking(path string, use func(*sql.DB) error) error {
	if err := registerVFS(); err != nil {
		return err
	}
	return still.Look{VFS: vfsName, Check: intact}.Read(path, use)
}

func migrations(db *sql.DB) (*goose.Provider, error) {
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, files, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	return provider, nil
}

// latestMigration is the version of the newest one.
func latestMigration() int {
	files, err := migrationFiles.ReadDir("migrations")
	if err != nil {
		return 0
	}
	return len(files) // a test holds that they are numbered without a gap
}

func migrate(ctx context.Context, db *sql.DB) error {
	provider, err := migrations(db)
	if err != nil {
		return err
	}
	have, want, err := provider.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("read the database's version: %w", err)
	}
	if have > want {
		return errNewer(have, want)
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrate the database: %w", err)
	}
	return nil
}

func errNewer(have, want int64) error {
	return model.Errorf(model.CodeConflict, "the database has version %d, this program knows %d", have, want).
		WithHint("Start the version of kymogram that wrote this data folder, or a newer one.")
}

// Close closes the pools and the mirror. Safe to call twice.
func (d *DB) Close() (err error) {
	defer d.writes.Turn()()
	if d.mirror != nil && d.tx != nil && !d.guest {
		_ = d.checkpoint(context.Background()) // fails when it is closed already, or on a full disk: the next start does it
	}
	if d.tx != nil {
		err = d.tx.close()
	}
	if d.reader != nil {
		err = errors.Join(err, d.reader.Close())
	}
	if d.writer != nil {
		err = errors.Join(err, d.writer.Close())
	}
	if d.mirror != nil {
		err = errors.Join(err, d.mirror.Close())
	}
	if d.mark != nil {
		_ = d.mark.Close() // safe to call twice, and nothing waits to be written
	}
	return err
}

// base is what the tables need of their database.
type base struct{ *DB }

// Write implements [tables.Database].
func (b base) Write(ctx context.Context, act string, f func(tx tables.Tx) error) error {
	return b.write(ctx, act, f)
}

// Failure implements [tables.Database].
func (b base) Failure(act string, err error) error { return b.failure(act, err) }

// failure explains an error as the function failure does. The first damaged page goes
// to the log, and to [DB.Damaged].
func (d *DB) failure(act string, err error) error {
	out := failure(act, err)
	var shown *model.Error
	if damaged(err) && errors.As(out, &shown) && d.met.CompareAndSwap(nil, shown) {
		d.log.Error("a page of the catalog is damaged; what does not need it is served", "met", act, "err", err, "hint", shown.Hint)
	}
	return out
}

// Damaged is an error once a read or a write met a damaged page. The next start
// repairs it.
func (d *DB) Damaged() error {
	if e := d.met.Load(); e != nil {
		return e
	}
	return nil
}

// failure names the act and gives the errors that a caller can act on a code.
func failure(act string, err error) error {
	var known *model.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	switch {
	case errors.Is(err, wal.ErrDiskFull):
		return errFull(act)
	case errors.Is(err, wal.ErrPoisoned):
		return model.Errorf(model.CodeUnavailable, "catalog: %s: the disk failed a write", act).WithHint("Check the disk and restart the server; what was acknowledged is safe.")
	}
	var e *driver.Error
	if !errors.As(err, &e) && !damaged(err) {
		return fmt.Errorf("catalog: %s: %w", act, err)
	}
	if damaged(err) {
		return model.Errorf(model.CodeInternal, "catalog: %s: a page of the catalog is damaged", act).WithHint("Restart the server: it repairs the catalog from its mirror. `kymogram data verify` names the damage.")
	}
	switch e.Code() & 0xff {
	case sqlitelib.SQLITE_FULL:
		return errFull(act)
	case sqlitelib.SQLITE_CANTOPEN:
		return model.Errorf(model.CodeUnavailable, "catalog: %s: its files cannot be opened", act).
			WithHint("The process may be out of file descriptors. Raise the limit: LimitNOFILE of the service, or ulimit -n.")
	case sqlitelib.SQLITE_BUSY, sqlitelib.SQLITE_LOCKED:
		return model.Errorf(model.CodeUnavailable, "catalog: %s: the database is locked by another program", act)
	}
	return fmt.Errorf("catalog: %s: %w", act, err)
}

func errFull(act string) error {
	return model.Errorf(model.CodeDiskFull, "catalog: %s: the disk is full", act).WithHint("Free space; writing goes on by itself.")
}

// damaged says that SQLite met a page that is not what was written.
func damaged(err error) bool {
	var e *driver.Error
	if errors.Is(err, still.ErrDamaged) {
		return true
	}
	if !errors.As(err, &e) {
		return false
	}
	code := e.Code() & 0xff
	return e.Code() == sqlitelib.SQLITE_IOERR_DATA || code == sqlitelib.SQLITE_CORRUPT || code == sqlitelib.SQLITE_NOTADB
}
