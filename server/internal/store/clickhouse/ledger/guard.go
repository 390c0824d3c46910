package ledger

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Guard is a lock of all servers of the store: those who share it keep out who excludes them. It
// ends by itself with the server that has it.
type Guard struct{ ledger *Ledger }

// Guard is that of the files.
func (l *Ledger) Guard() Guard { return Guard{l} }

// guardKey is a number that no other lock of the database has.
const guardKey = 7_305_804_402_548_466_533

// Share waits until nobody excludes.
func (g Guard) Share(ctx context.Context) (end func(), err error) {
	return g.take(ctx, `SELECT pg_advisory_xact_lock_shared($1)`)
}

// Exclude waits until nobody shares or excludes.
func (g Guard) Exclude(ctx context.Context) (end func(), err error) {
	return g.take(ctx, `SELECT pg_advisory_xact_lock($1)`)
}

// take holds a transaction open, with which the lock ends: also where a pool is in between.
func (g Guard) take(ctx context.Context, lock string) (end func(), err error) {
	tx, err := g.ledger.pool.Begin(ctx)
	if err != nil {
		return nil, failure("lock the files", err)
	}
	end = func() { _ = tx.Rollback(context.WithoutCancel(ctx)) } // it changed nothing
	b := &pgx.Batch{}
	b.Queue(`SET LOCAL idle_in_transaction_session_timeout = 0`) // the bucket may be slow
	b.Queue(lock, int64(guardKey))
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		end()
		return nil, failure("lock the files", err)
	}
	return end, nil
}
