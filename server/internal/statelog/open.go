package statelog

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	driver "modernc.org/sqlite"
	sqlitelib "modernc.org/sqlite/lib"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/platform"
	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/server/internal/catalog/mirror"
	"github.com/kymogram/kymogram/server/internal/catalog/still"
)

// The limits of one run.
const (
	// KeptPayload is how many bytes of old payloads are kept.
	KeptPayload = 64 << 20
	// MaxRecords is how many records a run may have.
	MaxRecords = 1_000_000
	// MaxForks is how many records with a sequence taken before are kept.
	MaxForks = 16
)

// Log keeps the records of all projects in one file, and a mirror of it.
type Log struct {
	db     *sql.DB
	path   string
	now    func() time.Time
	log    *slog.Logger
	health Health
	broken error // why no record can be read or taken
	// mirror has every change before the file does, and behind are those that the
	// file refused. Whoever writes may use them.
	mirror *mirror.Mirror
	behind []mirror.Row
	// mark has the number of records once more, apart from both.
	markPath string
	mark     *os.File // nil: there is none
	length   uint64   // how many records there are
	// writing holds one token: SQLite has one writer, and waiting here has no
	// time limit but the caller's.
	writing chan struct{}

	taken, refused, conflicts, forks atomic.Uint64

	mu   sync.Mutex
	news map[string]chan struct{} // by project; closed when a record was taken

	graves map[int64]buried      // by project
	chains map[chainOf][]chained // with their links

	bin Bin // nil: no run is ever deleted
}

// Bin knows which runs are deleted; the catalog does.
type Bin interface {
	// Gone are those of some runs that are in the trash or purged.
	Gone(ctx context.Context, ids []model.RunID) ([]model.RunID, error)
	// Deletions counts what may change an answer of Gone.
	Deletions() uint64
}

// buried are the deleted runs of a project, as of a count of deletions and of a size
// of its log.
type buried struct {
	deletions, size uint64
	ids             []model.RunID
}

// Heed makes lists name the runs that are deleted. Call it before the first list.
func (l *Log) Heed(bin Bin) { l.bin = bin }

// Stats counts since the start what became of records.
type Stats struct {
	Taken, Refused, Conflicts uint64
	Forks                     uint64 // kept as evidence
}

// Stats are the counts of now.
func (l *Log) Stats() Stats {
	return Stats{l.taken.Load(), l.refused.Load(), l.conflicts.Load(), l.forks.Load()}
}

// Open is OpenWith without a logger.
func Open(ctx context.Context, path string, now func() time.Time) (*Log, error) {
	return OpenWith(ctx, path, "", now, slog.New(slog.DiscardHandler))
}

// OpenWith opens or makes the file, after it was made to agree with its mirror. Where
// that cannot be done the log is broken: each call says why, and the rest of a server
// can go on. The number of records is noted in the file mark, "" for none.
func OpenWith(ctx context.Context, path, mark string, now func() time.Time, log *slog.Logger) (*Log, error) {
	l := &Log{path: path, markPath: mark, now: now, log: log, writing: make(chan struct{}, 1), news: map[string]chan struct{}{}, graves: map[int64]buried{}, chains: map[chainOf][]chained{}}
	err := l.open(ctx)
	if err == nil {
		return l, nil
	}
	_ = l.Close()
	if err = failure("open "+path, err); ctx.Err() != nil || !mendable(err) {
		return nil, err
	}
	log.Error("the state records cannot be used; everything else is served", "err", err)
	l.broken = model.Errorf(model.CodeUnavailable, "the state records cannot be used: %v", err).WithHint("run `kymogram data verify`; the server's log says what to do")
	l.db, l.mirror = sql.OpenDB(refusing{l.broken}), nil
	return l, nil
}

// mendable says that an error is of what the files hold, not of the disk, of rights
// or of a newer version.
func mendable(err error) bool {
	var e *driver.Error
	if errors.As(err, &e) {
		code := e.Code() & 0xff
		return code == sqlitelib.SQLITE_CORRUPT || code == sqlitelib.SQLITE_NOTADB || code == sqlitelib.SQLITE_ERROR
	}
	var system *fs.PathError
	return model.CodeOf(err) != model.CodeConflict && model.CodeOf(err) != model.CodeDiskFull && !errors.As(err, &system)
}

func (l *Log) open(ctx context.Context) error {
	health, err := heal(ctx, l.path, false, l.log)
	if err != nil {
		return err
	}
	l.health = *health
	if l.db, err = connect(l.path, writing); err != nil {
		return err
	}
	if err := migrate(ctx, l.db); err != nil {
		return err
	}
	if err := l.regrow(ctx); err != nil {
		return err
	}
	if l.mirror, err = mirror.Open(mirrorDir(l.path), l.log); err != nil {
		return err
	}
	return l.openMark(ctx)
}

// Health is what opening met.
func (l *Log) Health() Health { return l.health }

// Broken says why no record can be read or taken; nil: they can.
func (l *Log) Broken() error { return l.broken }

// refusing is a database that answers every call with one error.
type refusing struct{ err error }

func (r refusing) Connect(context.Context) (sqldriver.Conn, error) { return nil, r.err }
func (r refusing) Driver() sqldriver.Driver                        { return nil }

// looking reads a file without changing it. What use did is to be forgotten when it is
// called again.
func looking(path string, use func(*sql.DB) error) error {
	return still.Look{VFS: still.SystemVFS()}.Read(path, use)
}

// writing is how a file is opened to be changed.
const writing = "_txlock=immediate&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"

func connect(path, how string) (*sql.DB, error) {
	dsn := "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + how + "&_pragma=trusted_schema(0)&_pragma=busy_timeout(5000)"
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, fmt.Errorf("open the state records %s: %w", path, err)
	}
	db.SetMaxOpenConns(8)
	return db, nil
}

// Close closes the file and its mirror.
func (l *Log) Close() (err error) {
	if l.db != nil {
		err = l.db.Close()
	}
	if l.mirror != nil {
		err = errors.Join(err, l.mirror.Close())
	}
	if l.mark != nil {
		_ = l.mark.Close() // safe to call twice, and nothing waits to be written
	}
	return err
}

// Copy writes the records at from, which a server may be using, to a new file as
// they are at one moment. There may be none.
func Copy(ctx context.Context, from, to string) error {
	if _, err := os.Stat(from); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	err := looking(from, func(db *sql.DB) error {
		if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		_, err := db.ExecContext(ctx, `VACUUM INTO ?`, still.Target(to, still.SystemVFS()))
		return err
	})
	if err == nil {
		err = loadInto(ctx, to, merging(readMirror(from))) // what the file may lack
	}
	if err == nil {
		err = createMirror(ctx, to)
	}
	if err = failure("copy "+from, err); err != nil && model.CodeOf(err) == model.CodeInternal && mendable(err) {
		err = model.Errorf(model.CodeInternal, "%v", err).
			WithHint("`kymogram data verify` names the damage; the server's next start, or `kymogram data repair --yes` while it is stopped, mends the file from its mirror")
	}
	return err
}

// change is a transaction with what it adds to the mirror.
type change struct {
	*sql.Tx
	rows  []mirror.Row
	taken uint64 // records among them
}

func (c *change) mirror(r mirror.Row, err error) error {
	c.rows = append(c.rows, r)
	return err
}

// mirrorNew mirrors a row, unless it was there already.
func (c *change) mirrorNew(done sql.Result, err error, row func() (mirror.Row, error)) error {
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); n == 0 || err != nil {
		return err
	}
	return c.mirror(row())
}

// write runs a transaction that nobody else writes during. What it mirrors is durable
// before the file has it.
func (l *Log) write(ctx context.Context, act string, do func(tx *change) error) error {
	if l.broken != nil {
		return l.broken
	}
	select {
	case l.writing <- struct{}{}:
		defer func() { <-l.writing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return failure(act, err)
	}
	c := &change{Tx: tx}
	if err := l.transact(context.WithoutCancel(ctx), c, do); err != nil {
		_ = tx.Rollback()
		return failure(act, err)
	}
	if c.taken > 0 {
		l.note(c.taken)
	}
	l.tidy(context.WithoutCancel(ctx))
	return nil
}

func (l *Log) transact(ctx context.Context, tx *change, do func(tx *change) error) error {
	for _, r := range l.behind {
		if err := load(ctx, tx.Tx, r); err != nil {
			return err
		}
	}
	if err := do(tx); err != nil {
		return err
	}
	if len(tx.rows) > 0 {
		if err := l.mirror.Append(ctx, l.mirror.Prepare(tx.rows)); err != nil {
			return err
		}
		l.behind = append(l.behind, tx.rows...)
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	l.behind = nil
	return nil
}

// tidy replaces the mirror's changes by a snapshot when that pays. It fails on a full
// disk, and then the mirror is only larger.
func (l *Log) tidy(ctx context.Context) {
	if !l.mirror.Due() {
		return
	}
	h := mirror.Header{Schema: version, Position: l.mirror.Last}
	if err := l.mirror.WriteSnapshot(ctx, h, everyRow(ctx, l.db)); err != nil {
		l.log.Warn("the mirror of the state records was not made smaller", "err", err)
	}
}

// failure gives the errors that a caller can act on a code.
func failure(act string, err error) error {
	var known *model.Error
	var conflict *state.Conflict
	if err == nil || errors.As(err, &known) || errors.As(err, &conflict) {
		return err
	}
	var e *driver.Error
	if platform.IsDiskFull(err) {
		return errDiskFull(act)
	}
	if errors.As(err, &e) {
		switch e.Code() & 0xff {
		case sqlitelib.SQLITE_FULL:
			return errDiskFull(act)
		case sqlitelib.SQLITE_BUSY, sqlitelib.SQLITE_LOCKED:
			return model.Errorf(model.CodeUnavailable, "state records: %s: the file is locked by another program", act)
		}
	}
	return fmt.Errorf("state records: %s: %w", act, err)
}

func errDiskFull(act string) error {
	return model.Errorf(model.CodeDiskFull, "state records: %s: the disk is full", act).WithHint("Free space; writing goes on by itself.")
}

// wake tells those that wait for news of a project.
func (l *Log) wake(project string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.news[project]; c != nil {
		close(c)
		delete(l.news, project)
	}
}

// newsOf is closed with the next record of a project.
func (l *Log) newsOf(project string) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.news[project]
	if c == nil {
		c = make(chan struct{})
		l.news[project] = c
	}
	return c
}
