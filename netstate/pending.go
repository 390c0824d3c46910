package netstate

import (
	"context"
	"database/sql"
	"encoding/json"

	"github.com/kymogram/kymogram/internal/state"
)

// pending are the changes of a place that the server has not taken yet. They lie in
// the database, so that they outlive the process. Processes that share it deliver
// each other's, and a later change of a key replaces an earlier one.
func (d *ComputeDb) pending(ctx context.Context, at state.Place) (map[string]any, error) {
	out := map[string]any{}
	err := d.rows(ctx, "SELECT name, value FROM state_pending WHERE place = ?", []any{keyOf(at)}, func(r *sql.Rows) error {
		var name, text string
		if err := r.Scan(&name, &text); err != nil {
			return err
		}
		var value any
		err := json.Unmarshal([]byte(text), &value)
		out[name] = value
		return err
	})
	return out, wrap("read the changes that wait", err)
}

// addPending keeps changes until settle.
func (d *ComputeDb) addPending(ctx context.Context, at state.Place, changes map[string]any) error {
	if len(changes) == 0 {
		return nil
	}
	return d.write(ctx, func(tx execer) error {
		return eachPending(ctx, tx, at, changes, `INSERT INTO state_pending (place, name, value) VALUES (?, ?, ?)
			ON CONFLICT(place, name) DO UPDATE SET value = excluded.value`)
	})
}

// settle forgets changes, but what replaced one of them meanwhile.
func (d *ComputeDb) settle(ctx context.Context, at state.Place, changes map[string]any) error {
	if len(changes) == 0 {
		return nil
	}
	return d.write(ctx, func(tx execer) error { return dropPending(ctx, tx, at, changes) })
}

func dropPending(ctx context.Context, tx execer, at state.Place, changes map[string]any) error {
	return eachPending(ctx, tx, at, changes, "DELETE FROM state_pending WHERE place = ? AND name = ? AND value = ?")
}

func eachPending(ctx context.Context, tx execer, at state.Place, changes map[string]any, query string) error {
	for name, value := range changes {
		text, err := json.Marshal(value)
		if err == nil {
			_, err = tx.ExecContext(ctx, query, keyOf(at), name, string(text))
		}
		if err != nil {
			return wrap("keep what waits", err)
		}
	}
	return nil
}
