package ledger

import (
	"context"
	"crypto/rand"
)

// identify reads the secret of the store, which the first server makes, or who moves points there.
func (l *Ledger) identify(ctx context.Context, by *Mover) error {
	made := make([]byte, 32)
	_, _ = rand.Read(made) // it never fails
	if by != nil && by.Secret != nil {
		made = by.Secret
	}
	_, err := l.pool.Exec(ctx, `INSERT INTO ledger_store (id, secret) VALUES (0, $1) ON CONFLICT DO NOTHING`, made)
	var moving *string
	if err == nil {
		err = l.pool.QueryRow(ctx, `SELECT secret, moving FROM ledger_store`).Scan(&l.secret, &moving)
	}
	if err == nil && moving != nil && by == nil {
		err = errMoving(*moving)
	}
	return failure("read the secret of the store", err)
}

// Secret is what all servers of the store have, and nobody else.
func (l *Ledger) Secret() []byte { return l.secret }

// Marked says whether the table of points was given the name of the store.
func (l *Ledger) Marked(ctx context.Context) (yes bool, err error) {
	err = l.pool.QueryRow(ctx, `SELECT marked FROM ledger_store`).Scan(&yes)
	return yes, failure("read whether the points are marked", err)
}

// SetMarked notes that it was.
func (l *Ledger) SetMarked(ctx context.Context) error {
	_, err := l.pool.Exec(ctx, `UPDATE ledger_store SET marked = TRUE`)
	return failure("note that the points are marked", err)
}

// Files gives the store a place of its files, where it has none or has instead. It returns the
// place that all servers use.
func (l *Ledger) Files(ctx context.Context, place, instead string) (at string, err error) {
	if _, err := l.pool.Exec(ctx, `UPDATE ledger_store SET files = $1 WHERE files IS NULL OR files = $2`, place, instead); err != nil {
		return "", failure("note where files are", err)
	}
	err = l.pool.QueryRow(ctx, `SELECT files FROM ledger_store`).Scan(&at)
	return at, failure("read where files are", err)
}

// Probe fails as a commit would now.
func (l *Ledger) Probe(ctx context.Context) error {
	_, err := l.pool.Exec(ctx, `UPDATE ledger_nodes SET seen = seen WHERE name = $1`, l.holder)
	return failure("write to the ledger", err)
}
