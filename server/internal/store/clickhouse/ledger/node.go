package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
)

// deadAfter is how old the last sign of a node is whose updates another one takes over.
const deadAfter = "1 minute"

// begin ends the earlier lives of this server, and begins one.
func (l *Ledger) begin(ctx context.Context) error {
	_, err := l.pool.Exec(ctx, `DELETE FROM ledger_nodes WHERE folder = $1 OR seen < now() - interval '1 day'`, l.folder)
	return errors.Join(failure("begin the node", err), l.Beat(ctx))
}

// Beat says that this node works.
func (l *Ledger) Beat(ctx context.Context) error {
	began := time.Now()
	var clock float64
	var others int64
	err := l.pool.QueryRow(ctx, `INSERT INTO ledger_nodes (name, folder, seen) VALUES ($1, $2, now()) ON CONFLICT (name) DO UPDATE SET seen = now()
		RETURNING extract(epoch FROM clock_timestamp())::float8, (SELECT count(*) FROM (`+alive+`) a WHERE name <> $1)`, l.holder, l.folder).Scan(&clock, &others)
	if err == nil {
		l.counts.beat(began, clock, others+1)
	}
	return failure("report that the node works", err)
}

// alive are the nodes that work. A sign from the future is none: the clock went back, and whoever
// works gives another one soon.
const alive = `SELECT name FROM ledger_nodes WHERE seen BETWEEN now() - interval '` + deadAfter + `' AND now() + interval '` + deadAfter + `'`

// gone is true for updates of the others.
const gone = `node NOT IN (` + alive + `)`

// Pending lists updates that the catalog has not confirmed, by rising position: those of this
// node, and those of nodes that are gone, which become its own. So it comes before all other
// updates of this life.
func (l *Ledger) Pending(ctx context.Context) (out []store.Meta, err error) {
	err = l.write(ctx, "read updates", func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `UPDATE ledger_updates SET node = $1 WHERE node <> $1 AND `+gone, l.holder); err != nil {
			return err
		}
		out, err = updates(ctx, tx, `node = $1 ORDER BY position`, l.holder)
		return err
	})
	return out, err
}

// Earlier lists the updates of a run with positions between two that the catalog has not
// confirmed, whoever wrote them.
func (l *Ledger) Earlier(ctx context.Context, run model.RunID, after, before uint64) ([]store.Meta, error) {
	out, err := updates(ctx, l.pool, `run = $1 AND position > $2 AND position < $3 ORDER BY position`, run[:], int64(after), int64(before))
	return out, failure("read updates", err)
}

// Left lists the first updates of nodes that are gone.
func (l *Ledger) Left(ctx context.Context, limit int) ([]store.Meta, error) {
	out, err := updates(ctx, l.pool, `node <> $1 AND `+gone+` ORDER BY position LIMIT $2`, l.holder, limit)
	return out, failure("read updates", err)
}

// asked is a pool or a transaction.
type asked interface {
	Query(ctx context.Context, query string, args ...any) (pgx.Rows, error)
}

func updates(ctx context.Context, db asked, where string, args ...any) (out []store.Meta, err error) {
	rows, err := db.Query(ctx, `SELECT position, run, writer, doc FROM ledger_updates WHERE `+where, args...)
	if err != nil {
		return nil, err
	}
	return out, each(rows, func(row pgx.CollectableRow) error {
		var m store.Meta
		var run, writer, doc []byte
		if err := row.Scan(&m.LSN, &run, &writer, &doc); err != nil {
			return err
		}
		copy(m.Run[:], run)
		copy(m.Writer[:], writer)
		if err := json.Unmarshal(doc, &m.Updates); err != nil {
			return fmt.Errorf("updates at position %d: %w", m.LSN, err)
		}
		out = append(out, m)
		return nil
	})
}

// Release forgets the updates of this node up to a position.
func (l *Ledger) Release(ctx context.Context, position uint64) error {
	_, err := l.pool.Exec(ctx, `DELETE FROM ledger_updates WHERE node = $1 AND position <= $2`, l.holder, int64(position))
	return failure("release updates", err)
}

// Forget forgets updates, whoever wrote them.
func (l *Ledger) Forget(ctx context.Context, positions []uint64) error {
	_, err := l.pool.Exec(ctx, `DELETE FROM ledger_updates WHERE position = ANY($1)`, positions)
	return failure("release updates", err)
}

// Position is that of a committed batch whose answer was lost.
func (l *Ledger) Position(ctx context.Context, run model.RunID, lsn uint64) (at uint64, err error) {
	err = l.pool.QueryRow(ctx, `SELECT coalesce((SELECT position FROM ledger_updates WHERE run = $1 AND lsn = $2), nextval('ledger_positions'))`, run[:], int64(lsn)).Scan(&at)
	return at, failure("look up a batch", err)
}

// Runs lists runs that are kept: those with attempts. A page begins after a run.
func (l *Ledger) Runs(ctx context.Context, after model.RunID, limit int) ([]model.KeptRun, error) {
	var out []model.KeptRun
	at := map[model.RunID]int{}
	err := l.read(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT id FROM ledger_runs WHERE id > $1 AND NOT deleted AND EXISTS (SELECT 1 FROM ledger_attempts WHERE run = id) ORDER BY id LIMIT $2`, after[:], limit)
		if err != nil {
			return err
		}
		var ids [][]byte
		if err := each(rows, func(row pgx.CollectableRow) error {
			var id []byte
			err := row.Scan(&id)
			ids = append(ids, id)
			at[model.RunID(id)] = len(out)
			out = append(out, model.KeptRun{ID: model.RunID(id)})
			return err
		}); err != nil {
			return err
		}
		return tx.SendBatch(ctx, contents(ids, out, at)).Close()
	})
	return out, err
}

// contents asks for attempts and writers of runs.
func contents(ids [][]byte, out []model.KeptRun, at map[model.RunID]int) *pgx.Batch {
	b := &pgx.Batch{}
	b.Queue(`SELECT run, number, precedence, opened, resume_from FROM ledger_attempts WHERE run = ANY($1) ORDER BY run, number`, ids).Query(func(rows pgx.Rows) error {
		return each(rows, func(row pgx.CollectableRow) error {
			var run []byte
			var a model.Attempt
			if err := row.Scan(&run, &a.Number, &a.Precedence, &a.OpenedNs, &a.ResumeFrom); err != nil {
				return err
			}
			k := &out[at[model.RunID(run)]]
			k.Attempts = append(k.Attempts, a)
			return nil
		})
	})
	b.Queue(`SELECT run, id, attempt, logger FROM ledger_writers WHERE run = ANY($1) ORDER BY run, place`, ids).Query(func(rows pgx.Rows) error {
		return each(rows, func(row pgx.CollectableRow) error {
			var run, id []byte
			var w model.KeptWriter
			var logger *int64
			if err := row.Scan(&run, &id, &w.Attempt, &logger); err != nil {
				return err
			}
			copy(w.ID[:], id)
			w.LoggerID = unsigned(logger)
			k := &out[at[model.RunID(run)]]
			k.Writers = append(k.Writers, w)
			return nil
		})
	})
	return b
}
