package statelog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	driver "modernc.org/sqlite"
	sqlitelib "modernc.org/sqlite/lib"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/state"
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

// Log keeps the records of all projects in one file.
type Log struct {
	db  *sql.DB
	now func() time.Time
	// writing holds one token: SQLite has one writer, and waiting here has no
	// time limit but the caller's.
	writing chan struct{}

	taken, refused, conflicts, forks atomic.Uint64

	mu   sync.Mutex
	news map[string]chan struct{} // by project; closed when a record was taken

	graves map[int64]buried // by project

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

// Open opens or makes the file.
func Open(ctx context.Context, path string, now func() time.Time) (*Log, error) {
	l := &Log{now: now, writing: make(chan struct{}, 1), news: map[string]chan struct{}{}, graves: map[int64]buried{}}
	var err error
	if l.db, err = connect(path, writing); err != nil {
		return nil, err
	}
	if err := migrate(ctx, l.db); err != nil {
		return nil, errors.Join(failure("open "+path, err), l.db.Close())
	}
	return l, nil
}

// How a file is opened: to write, or without changing a byte of it.
const (
	writing = "_txlock=immediate&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"
	looking = "mode=rw"
)

func connect(path, how string) (*sql.DB, error) {
	dsn := "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + how + "&_pragma=trusted_schema(0)&_pragma=busy_timeout(5000)"
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, fmt.Errorf("open the state records %s: %w", path, err)
	}
	db.SetMaxOpenConns(8)
	return db, nil
}

// Close closes the file.
func (l *Log) Close() error { return l.db.Close() }

// Copy writes the records at from, which a server may be using, to a new file as
// they are at one moment. There may be none.
func Copy(ctx context.Context, from, to string) error {
	if _, err := os.Stat(from); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	db, err := connect(from, looking)
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, `VACUUM INTO ?`, to)
	return failure("copy "+from, errors.Join(err, db.Close()))
}

// write runs a transaction that nobody else writes during.
func (l *Log) write(ctx context.Context, act string, do func(tx *sql.Tx) error) error {
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
	if err := do(tx); err != nil {
		_ = tx.Rollback()
		return failure(act, err)
	}
	return failure(act, tx.Commit())
}

// failure gives the errors that a caller can act on a code.
func failure(act string, err error) error {
	var known *model.Error
	var conflict *state.Conflict
	if err == nil || errors.As(err, &known) || errors.As(err, &conflict) {
		return err
	}
	var e *driver.Error
	if errors.As(err, &e) {
		switch e.Code() & 0xff {
		case sqlitelib.SQLITE_FULL:
			return model.Errorf(model.CodeDiskFull, "state records: %s: the disk is full", act).WithHint("Free space; writing goes on by itself.")
		case sqlitelib.SQLITE_BUSY, sqlitelib.SQLITE_LOCKED:
			return model.Errorf(model.CodeUnavailable, "state records: %s: the file is locked by another program", act)
		}
	}
	return fmt.Errorf("state records: %s: %w", act, err)
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
