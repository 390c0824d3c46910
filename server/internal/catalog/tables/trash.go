package tables

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/kymogram/kymogram/internal/model"
)

func errNoRun(id model.RunID) error {
	return model.Errorf(model.CodeNotFound, "there is no run %s", id).WithHint("`kymogram runs list` shows the runs that you may read.")
}

// Trash implements [catalog.Bin].
func (d *DB) Trash(ctx context.Context, id model.RunID, now time.Time) error {
	return d.onRun(ctx, "trash a run", id, `UPDATE runs SET deleted_ns = CASE deleted_ns WHEN 0 THEN ?2 ELSE deleted_ns END WHERE id = (SELECT run FROM ids WHERE id = ?1) RETURNING id`, now.UnixNano())
}

// Restore implements [catalog.Bin].
func (d *DB) Restore(ctx context.Context, id model.RunID) error {
	return d.onRun(ctx, "restore a run", id, `UPDATE runs SET deleted_ns = 0 WHERE id = (SELECT run FROM ids WHERE id = ?1) RETURNING id`)
}

// onRun changes a run. Its query gives the run's own id.
func (d *DB) onRun(ctx context.Context, act string, id model.RunID, query string, args ...any) error {
	defer d.Moved() // after the change: who asks before it asks again
	return d.write(ctx, act, func(tx Tx) error {
		changed, err := Collect(ctx, tx, scanRunID, query, append([]any{id[:]}, args...)...)
		if err != nil {
			return err
		}
		if len(changed) == 0 {
			return errNoRun(id)
		}
		return tellRun(tx, changed[0])
	})
}

// Purge implements [catalog.Bin]. Identities, ULIDs and writers stay, so
// that late points of the run find out that it is gone.
func (d *DB) Purge(ctx context.Context, id model.RunID) error {
	defer d.Moved()
	return d.write(ctx, "purge a run", func(tx Tx) error {
		var run []byte
		var deletedNs int64
		err := tx.QueryRowContext(ctx, `SELECT r.id, CASE r.deleted_ns WHEN 0 THEN r.seen_ns ELSE r.deleted_ns END FROM ids JOIN runs r ON r.id = ids.run WHERE ids.id = ?`, id[:]).Scan(&run, &deletedNs)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := Exec(ctx, tx, `UPDATE identities SET purged_ns = ? WHERE run = ?`, deletedNs, run); err != nil {
			return err
		}
		// The tables of a run follow by ON DELETE CASCADE.
		if err := Exec(ctx, tx, `DELETE FROM runs WHERE id = ?`, run); err != nil {
			return err
		}
		return tellRun(tx, model.RunID(run))
	})
}

// TrashedBefore implements [catalog.Bin].
func (d *DB) TrashedBefore(ctx context.Context, before time.Time) ([]model.RunID, error) {
	ids, err := Collect(ctx, d.reader, scanRunID, `SELECT id FROM runs WHERE deleted_ns > 0 AND deleted_ns < ? ORDER BY deleted_ns`, before.UnixNano())
	return ids, d.failure("list the trash", err)
}

func scanRunID(rows *sql.Rows) (model.RunID, error) {
	var id model.RunID
	var raw []byte
	err := rows.Scan(&raw)
	copy(id[:], raw)
	return id, err
}

// Deletions counts runs that were deleted, restored or purged since the start.
func (d *DB) Deletions() uint64 { return d.deletions.Load() }

// Gone implements [catalog.Bin].
func (d *DB) Gone(ctx context.Context, ids []model.RunID) ([]model.RunID, error) {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = hex.EncodeToString(id[:])
	}
	list, err := json.Marshal(texts)
	if err != nil {
		return nil, fmt.Errorf("encode runs: %w", err)
	}
	gone, err := Collect(ctx, d.reader, scanRunID, `SELECT unhex(value) FROM json_each(?)
		WHERE NOT EXISTS (SELECT 1 FROM runs WHERE id = unhex(value) AND deleted_ns = 0) ORDER BY key`, string(list))
	return gone, d.failure("look for runs in the trash", err)
}
