package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"github.com/kymogram/kymogram/server/internal/catalog/tables"
)

const (
	// maxTogether bounds a transaction, and so how long its writes wait for one another.
	maxTogether = 64
	// mostGather bounds how long one waits for the others where the disk is slow.
	mostGather = 2 * time.Millisecond
)

// writes are those that wait. One of the callers commits all of them in one
// transaction, so that they share its sync.
type writes struct {
	turn    chan struct{} // held by whoever commits
	mu      sync.Mutex
	waiting []*write
	// Callers that write one thing after the other come again soon. So a transaction waits
	// until as many are there as were around the last one, no longer than that one took.
	expected int
	took     time.Duration
	whole    chan struct{} // closed when they are there; nil when nobody asks
}

// write is one of them. It sees what those before it in the transaction did, and
// its failure undoes nothing but itself.
type write struct {
	ctx  context.Context
	act  string
	f    func(tx *transaction) error
	err  error // when done is closed
	done chan struct{}
}

// write runs f in a write transaction; it is durable when write returns nil. When
// the transaction fails, so do all that share it.
func (d *DB) write(ctx context.Context, act string, f func(tx *transaction) error) error {
	w := &write{ctx: ctx, act: act, f: f, done: make(chan struct{})}
	d.writes.add(w)
	for {
		select {
		case <-w.done:
			return w.err
		case d.writes.turn <- struct{}{}:
			d.writes.gather()
			begun, all := time.Now(), d.writes.take()
			d.commit(all)
			d.writes.served(len(all), time.Since(begun))
			d.tidy(ctx)
			<-d.writes.turn
		}
	}
}

func (w *writes) add(one *write) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = append(w.waiting, one)
	if w.whole != nil && len(w.waiting) >= w.expected {
		close(w.whole)
		w.whole = nil
	}
}

// gather waits for those that are expected.
func (w *writes) gather() {
	w.mu.Lock()
	if n := len(w.waiting); n == 0 || n >= w.expected {
		w.mu.Unlock()
		return
	}
	whole := make(chan struct{})
	w.whole = whole
	end := time.NewTimer(min(w.took, mostGather))
	w.mu.Unlock()
	defer end.Stop()
	select {
	case <-whole:
	case <-end.C:
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.whole = nil
}

// served notes what the next transaction may expect.
func (w *writes) served(n int, took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n > 0 {
		w.expected, w.took = min(n+len(w.waiting), maxTogether), took
	}
}

func (w *writes) take() []*write {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(len(w.waiting), maxTogether)
	taken := w.waiting[:n:n]
	w.waiting = w.waiting[n:]
	return taken
}

// commit runs writes in one transaction and tells each how it went.
func (d *DB) commit(all []*write) {
	if len(all) == 0 {
		return
	}
	// Not to be cut with the first caller.
	err := d.transact(context.WithoutCancel(all[0].ctx), all)
	for _, w := range all {
		if err != nil {
			w.err = err
		}
		w.err = d.failure(w.act, w.err)
		close(w.done)
	}
}

// transact is an error when nothing of any of the writes was stored.
func (d *DB) transact(ctx context.Context, all []*write) error {
	tx := d.tx
	if err := d.begin(ctx); err != nil {
		return err
	}
	d.touched.forget()
	if len(all) == 1 {
		// Without a savepoint, for which SQLite would keep a copy of each page.
		if all[0].err = all[0].do(tx); all[0].err != nil {
			return tx.abort(ctx, nil)
		}
		return d.finish(ctx)
	}
	for _, w := range all {
		if err := tables.Exec(ctx, tx, `SAVEPOINT w`); err != nil {
			return tx.abort(ctx, err)
		}
		if w.err = w.do(tx); w.err != nil {
			// It fails where SQLite rolled back all of them, as on a full disk.
			if err := tables.Exec(ctx, tx, `ROLLBACK TO w`); err != nil {
				return tx.abort(ctx, errors.Join(d.failure(w.act, w.err), err))
			}
		}
		if err := tables.Exec(ctx, tx, `RELEASE w`); err != nil {
			return tx.abort(ctx, err)
		}
	}
	return d.finish(ctx)
}

// finish mirrors what the transaction changed and commits it. The mirror comes
// first, and what it has is done: a database that refuses it catches up before its
// next transaction, or at the next start.
func (d *DB) finish(ctx context.Context) error {
	rows, err := d.touched.read(ctx, d.tx)
	if err != nil {
		return d.tx.abort(ctx, err)
	}
	if len(rows) > 0 {
		c := d.mirror.Prepare(rows)
		if err := setPosition(ctx, d.tx, c.At); err != nil {
			return d.tx.abort(ctx, err)
		}
		if err := d.mirror.Append(ctx, c); err != nil {
			return d.tx.abort(ctx, err)
		}
		d.note(c.At)
		d.behind = append(d.behind, missed{c.At, c.Rows()})
	}
	if err := tables.Exec(ctx, d.tx, `COMMIT`); err != nil {
		return d.tx.abort(ctx, err)
	}
	d.behind = nil
	return nil
}

func (w *write) do(tx *transaction) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	return w.f(tx)
}

// transaction runs statements on the connection that writes. Each is prepared
// once: parsing took half of the time of an open.
type transaction struct {
	conn     *sql.Conn
	prepared map[string]*sql.Stmt
}

// maxPrepared bounds the statements that are kept. There are about fifty.
const maxPrepared = 500

func (t *transaction) prepare(ctx context.Context, query string) (*sql.Stmt, error) {
	if s := t.prepared[query]; s != nil {
		return s, nil
	}
	if len(t.prepared) >= maxPrepared {
		t.forget()
	}
	s, err := t.conn.PrepareContext(ctx, query)
	if err == nil {
		t.prepared[query] = s
	}
	return s, err
}

func (t *transaction) forget() {
	for _, s := range t.prepared {
		_ = s.Close() // only memory
	}
	clear(t.prepared)
}

// close gives the connection back. SQLite moves its log into the database only
// when the last connection without statements closes.
func (t *transaction) close() error {
	t.forget()
	if err := t.conn.Close(); !errors.Is(err, sql.ErrConnDone) {
		return err
	}
	return nil
}

// ExecContext is that of [sql.Tx].
func (t *transaction) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	s, err := t.prepare(ctx, query) //nolint:sqlclosecheck // it is kept
	if err != nil {
		return nil, err
	}
	return s.ExecContext(ctx, args...)
}

// QueryContext is that of [sql.Tx].
func (t *transaction) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	s, err := t.prepare(ctx, query) //nolint:sqlclosecheck // it is kept
	if err != nil {
		return nil, err
	}
	return s.QueryContext(ctx, args...)
}

// QueryRowContext is that of [sql.Tx].
func (t *transaction) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	s, err := t.prepare(ctx, query) //nolint:sqlclosecheck // it is kept
	if err != nil {
		return t.conn.QueryRowContext(ctx, query, args...) // says it
	}
	return s.QueryRowContext(ctx, args...)
}

// abort ends a transaction that failed, unless SQLite did, and passes on why.
func (t *transaction) abort(ctx context.Context, err error) error {
	_ = tables.Exec(ctx, t, `ROLLBACK`) // fails when there is none
	return err
}
