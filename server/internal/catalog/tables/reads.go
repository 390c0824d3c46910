package tables

import (
	"context"
	"database/sql"
	"errors"
	"sync"

	"github.com/kymogram/kymogram/server/internal/share"
)

const (
	// readers is how many reads run at once; lists are short, so few are enough.
	readers = 4
	// spareReader is for a caller that has none when others have all.
	spareReader = 1
	// oneCaller is how many of them are of one caller: those of others go in between.
	oneCaller = 2
)

// ReadConnections is how many connections a pool for [Reads] has.
const ReadConnections = readers + spareReader

// Reads is the pool of connections that only read. Callers take turns at it.
type Reads struct {
	*sql.DB
	turns    *share.Pool
	mu       sync.Mutex
	prepared map[string]*sql.Stmt // of constant queries that are asked often: to parse one is most of its work
}

// NewReads reads from a pool that has [ReadConnections].
func NewReads(db *sql.DB) *Reads {
	return &Reads{DB: db, turns: share.NewTurns("reads of the catalog", readers, oneCaller, 0), prepared: map[string]*sql.Stmt{}}
}

// turn waits for the caller's turn.
func (r *Reads) turn(ctx context.Context) (release func(), err error) {
	return r.turns.Acquire(ctx, 1)
}

// row reads one row when it is the caller's turn. The query is a constant.
func (r *Reads) row(ctx context.Context, query string, args ...any) (scan func(into ...any) error) {
	return func(into ...any) error {
		release, err := r.turn(ctx)
		if err != nil {
			return err
		}
		defer release()
		s, err := r.prepare(ctx, query) //nolint:sqlclosecheck // it is kept
		if err != nil {
			return err
		}
		return s.QueryRowContext(ctx, args...).Scan(into...)
	}
}

func (r *Reads) prepare(ctx context.Context, query string) (*sql.Stmt, error) {
	r.mu.Lock()
	known := r.prepared[query]
	r.mu.Unlock()
	if known != nil {
		return known, nil
	}
	s, err := r.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.prepared[query]; known != nil { // another was faster
		return known, s.Close() //nolint:sqlclosecheck // the other is used from here on
	}
	r.prepared[query] = s
	return s, nil
}

// often asks constant queries.
type often struct{ *Reads }

// QueryContext is that of [sql.DB].
func (o often) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	s, err := o.prepare(ctx, query) //nolint:sqlclosecheck // it is kept
	if err != nil {
		return nil, err
	}
	return s.QueryContext(ctx, args...)
}

// Close ends the statements first: SQLite moves its log into the database only when the last
// connection without statements closes.
func (r *Reads) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var err error
	for _, s := range r.prepared {
		err = errors.Join(err, s.Close())
	}
	clear(r.prepared)
	return errors.Join(err, r.DB.Close())
}
