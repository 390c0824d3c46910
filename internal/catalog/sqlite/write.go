package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"sync"
)

// maxTogether bounds a transaction, and so how long its writes wait for one another.
const maxTogether = 64

// writes are those that wait. One of the callers commits all of them in one
// transaction, so that they share its sync.
type writes struct {
	turn    chan struct{} // held by whoever commits
	mu      sync.Mutex
	waiting []*write
}

// write is one of them. It sees what those before it in the transaction did, and
// its failure undoes nothing but itself.
type write struct {
	ctx  context.Context
	act  string
	f    func(tx *sql.Tx) error
	err  error // when done is closed
	done chan struct{}
}

// write runs f in a write transaction; it is durable when write returns nil. When
// the transaction fails, so do all that share it.
func (d *DB) write(ctx context.Context, act string, f func(tx *sql.Tx) error) error {
	w := &write{ctx: ctx, act: act, f: f, done: make(chan struct{})}
	d.writes.mu.Lock()
	d.writes.waiting = append(d.writes.waiting, w)
	d.writes.mu.Unlock()
	for {
		select {
		case <-w.done:
			return w.err
		case d.writes.turn <- struct{}{}:
			d.commit(d.writes.take())
			<-d.writes.turn
		}
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
		w.err = failure(w.act, w.err)
		close(w.done)
	}
}

// transact is an error when nothing of any of the writes was stored.
func (d *DB) transact(ctx context.Context, all []*write) error {
	tx, err := d.writer.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	for _, w := range all {
		if err := exec(ctx, tx, `SAVEPOINT w`); err != nil {
			return errors.Join(err, rollback(tx))
		}
		if w.err = w.do(tx); w.err != nil {
			// It fails where SQLite rolled back all of them, as on a full disk.
			if err := exec(ctx, tx, `ROLLBACK TO w`); err != nil {
				return errors.Join(failure(w.act, w.err), err, rollback(tx))
			}
		}
		if err := exec(ctx, tx, `RELEASE w`); err != nil {
			return errors.Join(err, rollback(tx))
		}
	}
	return tx.Commit()
}

func (w *write) do(tx *sql.Tx) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	return w.f(tx)
}

func rollback(tx *sql.Tx) error {
	if err := tx.Rollback(); err != nil && !errors.Is(err, sql.ErrTxDone) {
		return err
	}
	return nil
}
