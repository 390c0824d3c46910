package sqlite

import (
	"context"
	"database/sql"

	"github.com/kymogram/kymogram/server/internal/share"
)

const (
	// readers is how many reads run at once; lists are short, so few are enough.
	readers = 4
	// spareReader is for a caller that has none when others have all.
	spareReader = 1
	// oneCaller is how many of them are of one caller: those of others go in between.
	oneCaller = 2
	// defaultCache is the page cache of all connections: a search through 100,000 runs
	// took a third of the time it takes with SQLite's own 2 MiB.
	defaultCache = 160 << 20
)

// reads is the pool of connections that only read. Callers take turns at it.
type reads struct {
	*sql.DB
	turns *share.Pool
	kept  map[string]*sql.Stmt // of what is asked very often: to parse it is most of its work
}

func newReads(ctx context.Context, db *sql.DB, often ...string) (*reads, error) {
	r := &reads{db, share.NewTurns("reads of the catalog", readers, oneCaller, 0), map[string]*sql.Stmt{}}
	for _, query := range often {
		s, err := db.PrepareContext(ctx, query) //nolint:sqlclosecheck // it is kept
		if err != nil {
			return r, err
		}
		r.kept[query] = s
	}
	return r, nil
}

// QueryContext is that of [sql.DB].
func (r *reads) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if s := r.kept[query]; s != nil {
		return s.QueryContext(ctx, args...)
	}
	return r.DB.QueryContext(ctx, query, args...)
}

// row reads one row when it is the caller's turn.
func (r *reads) row(ctx context.Context, query string, args ...any) (scan func(into ...any) error) {
	return func(into ...any) error {
		release, err := r.turns.Acquire(ctx, 1)
		if err != nil {
			return err
		}
		defer release()
		return r.QueryRowContext(ctx, query, args...).Scan(into...)
	}
}
