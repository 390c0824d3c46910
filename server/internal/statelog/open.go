package statelog

import (
	"context"
	"database/sql"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog/mirror"
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

// Log keeps the records of all projects in one place.
type Log struct {
	base base
	file *file // the place, where it is a file; else nil
	now  func() time.Time
	log  *slog.Logger
	// writing holds one token: SQLite has one writer, in PostgreSQL a project has one, and
	// waiting here has no time limit but the caller's.
	writing chan struct{}

	taken, refused, conflicts, forks atomic.Uint64

	mu   sync.Mutex
	news map[string]chan struct{} // by project; closed when a record was taken

	graves map[int64]buried      // by project
	chains map[chainOf][]chained // with their links

	bin  Bin                             // nil: no run is ever deleted
	tell func(workspace, project string) // nil: no other server has these records
}

// base is the place of the tables: a file, or a database that several servers share.
type base interface {
	querier
	// write runs a transaction, which is durable when it returns nil. Nobody else writes
	// to a project that it holds, see [change.hold]. It may run several times; what was begun
	// ends, also when ctx does.
	write(ctx context.Context, do func(tx *change) error) error
	// failure names the act, and gives errors that a caller can act on a code.
	failure(act string, err error) error
	// renewable says why heads that do not fit the key are no sign of a new one; nil: they are.
	renewable(ctx context.Context) error
	Close() error
}

// querier is a place or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// transaction is one that writes.
type transaction interface {
	querier
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
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
	f, err := openFile(ctx, path, mark, log)
	if err != nil {
		return nil, err
	}
	l := newLog(f, now, log)
	l.file = f
	return l, nil
}

func newLog(b base, now func() time.Time, log *slog.Logger) *Log {
	return &Log{base: b, now: now, log: log, writing: make(chan struct{}, 1), news: map[string]chan struct{}{}, graves: map[int64]buried{}, chains: map[chainOf][]chained{}}
}

// Health is what opening met.
func (l *Log) Health() Health {
	if l.file == nil {
		return Health{}
	}
	return l.file.health
}

// Broken says why no record can be read or taken; nil: they can.
func (l *Log) Broken() error {
	if l.file == nil {
		return nil
	}
	return l.file.broken
}

// Close closes the place.
func (l *Log) Close() error { return l.base.Close() }

// change is a transaction with what it adds to the mirror, where there is one.
type change struct {
	transaction
	mirrored bool
	rows     []mirror.Row
	taken    uint64 // records among them
}

func (c *change) mirror(row func() (mirror.Row, error)) error {
	if !c.mirrored {
		return nil
	}
	r, err := row()
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
	return c.mirror(row)
}

// hold makes a project where there is none, and keeps others from writing to it until the
// transaction ends: that begins with it.
func (c *change) hold(ctx context.Context, workspace, name string) (p project, err error) {
	err = c.QueryRowContext(ctx, `INSERT INTO projects AS p (workspace, project) VALUES (?, ?)
		ON CONFLICT (workspace, project) DO UPDATE SET size = p.size RETURNING id, size, tree_size`, workspace, name).Scan(&p.id, &p.size, &p.treeSize)
	return p, err
}

// write runs a transaction that nobody else of this server writes during.
func (l *Log) write(ctx context.Context, act string, do func(tx *change) error) error {
	select {
	case l.writing <- struct{}{}:
		defer func() { <-l.writing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return l.failure(act, l.base.write(ctx, do))
}

func (l *Log) failure(act string, err error) error {
	if err == nil {
		return nil
	}
	return l.base.failure(act, err)
}
