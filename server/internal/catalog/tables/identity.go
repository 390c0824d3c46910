package tables

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/kymogram/kymogram/internal/model"
)

// newRunID makes a ULID: 48 bits of milliseconds, 80 random bits.
func newRunID(now time.Time) model.RunID {
	var id model.RunID
	binary.BigEndian.PutUint64(id[:8], uint64(now.UnixMilli())<<16)
	_, _ = rand.Read(id[6:]) // crypto/rand.Read never fails, see its documentation
	return id
}

// addAlias makes a client's local ULID lead to a run. One that means another run
// already keeps its meaning.
func addAlias(ctx context.Context, tx Tx, alias, run model.RunID) error {
	if alias.IsZero() {
		return nil
	}
	return Exec(ctx, tx, `INSERT INTO ids (id, run) VALUES (?, ?) ON CONFLICT DO NOTHING`, alias[:], run[:])
}

// freeName is name, or the first of name-2, name-3, … that no run has.
func freeName(ctx context.Context, tx Tx, project int64, name string) (string, error) {
	candidate := name
	for n := 2; ; n++ {
		var taken bool
		err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM runs WHERE project = ? AND name = ?)`, project, candidate).Scan(&taken)
		if err != nil || !taken {
			return candidate, err
		}
		suffix := fmt.Sprintf("-%d", n)
		candidate = model.CutBytes(name, model.MaxNameBytes-len(suffix)) + suffix
	}
}
