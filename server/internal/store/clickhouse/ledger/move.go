package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
)

// Mover is who moves points between a data folder and the store. No server runs meanwhile.
type Mover struct {
	// Secret is that of the data folder: a store that is new gets it.
	Secret []byte
}

func errMoving(why string) error {
	return model.Errorf(model.CodeConflict, "no server may use this store: its points %s", why).
		WithHint("Finish the move with the same `kymogram migrate`, then start the server.")
}

// Moving is why no server may use the store, empty where servers may.
func (l *Ledger) Moving(ctx context.Context) (why string, err error) {
	err = l.pool.QueryRow(ctx, `SELECT coalesce(moving, '') FROM ledger_store`).Scan(&why)
	return why, failure("read whether points move", err)
}

// SetMoving keeps servers from starting; an empty text lets them.
func (l *Ledger) SetMoving(ctx context.Context, why string) error {
	_, err := l.pool.Exec(ctx, `UPDATE ledger_store SET moving = nullif($1, '')`, why)
	return failure("note that points move", err)
}

// quietFor is after which time without a sign a server was stopped: it gives one each 10 s.
const quietFor = 15 * time.Second

// Others counts the servers that gave a sign lately. It waits for those that were just stopped.
func (l *Ledger) Others(ctx context.Context) (n int, err error) {
	for end := time.Now().Add(quietFor + time.Second); ; {
		err := l.pool.QueryRow(ctx, `SELECT count(*) FROM ledger_nodes WHERE name <> $1 AND seen > now() - make_interval(secs => $2)`, l.holder, quietFor.Seconds()).Scan(&n)
		if err != nil || n == 0 || time.Now().After(end) {
			return n, failure("look for servers", err)
		}
		pause := time.NewTimer(250 * time.Millisecond)
		select {
		case <-ctx.Done():
			pause.Stop()
			return n, failure("look for servers", ctx.Err())
		case <-pause.C:
		}
	}
}

// Leave ends this life, so that others take over its updates at once.
func (l *Ledger) Leave(ctx context.Context) error {
	_, err := l.pool.Exec(ctx, `DELETE FROM ledger_nodes WHERE name = $1`, l.holder)
	return failure("leave", err)
}

// LastPosition is the highest one that was given.
func (l *Ledger) LastPosition(ctx context.Context) (at uint64, err error) {
	err = l.pool.QueryRow(ctx, `SELECT last_value FROM ledger_positions`).Scan(&at)
	return at, failure("read the last position", err)
}

// Pass makes all later positions higher than one: the catalog knows of each run how far its
// updates are.
func (l *Ledger) Pass(ctx context.Context, position uint64) error {
	_, err := l.pool.Exec(ctx, `SELECT setval('ledger_positions', greatest(last_value, $1)) FROM ledger_positions`, int64(max(position, 1)))
	return failure("pass a position", err)
}

// Update is a batch's updates on their way.
type Update struct {
	Position uint64
	Run      model.RunID
	Writer   model.WriterID
	Doc      []byte
}

// PutUpdates notes updates that the catalog may not have, under their positions.
func (l *Ledger) PutUpdates(ctx context.Context, list []Update) error {
	b := &pgx.Batch{}
	for i := range list {
		u := &list[i]
		b.Queue(`INSERT INTO ledger_updates (position, node, run, lsn, writer, doc) VALUES ($1, $2, $3, 0, $4, $5) ON CONFLICT DO NOTHING`, int64(u.Position), l.holder, u.Run[:], u.Writer[:], u.Doc)
	}
	return failure("note updates", l.pool.SendBatch(ctx, b).Close())
}

// Updates are all that the catalog may not have, by rising position.
func (l *Ledger) Updates(ctx context.Context) (out []Update, err error) {
	rows, err := l.pool.Query(ctx, `SELECT position, run, writer, doc FROM ledger_updates ORDER BY position`)
	if err != nil {
		return nil, failure("read updates", err)
	}
	err = each(rows, func(row pgx.CollectableRow) error {
		var u Update
		var run, writer []byte
		err := row.Scan(&u.Position, &run, &writer, &u.Doc)
		copy(u.Run[:], run)
		copy(u.Writer[:], writer)
		out = append(out, u)
		return err
	})
	return out, failure("read updates", err)
}

// IDs lists runs, also deleted ones, by rising id. A page begins after a run.
func (l *Ledger) IDs(ctx context.Context, after model.RunID, limit int) (out []model.RunID, err error) {
	rows, err := l.pool.Query(ctx, `SELECT id FROM ledger_runs WHERE id > $1 ORDER BY id LIMIT $2`, after[:], limit)
	if err != nil {
		return nil, failure("list runs", err)
	}
	err = each(rows, func(row pgx.CollectableRow) error {
		var id []byte
		err := row.Scan(&id)
		out = append(out, model.RunID(id))
		return err
	})
	return out, failure("list runs", err)
}

// Head is what a run has besides series and points.
type Head struct {
	record.Run
	Skipped int // ranges
}

// Heads reads some runs; those that are not known are left out.
func (l *Ledger) Heads(ctx context.Context, ids []model.RunID) (map[model.RunID]*Head, error) {
	keys := make([][]byte, len(ids))
	for i := range ids {
		keys[i] = ids[i][:]
	}
	out := map[model.RunID]*Head{}
	b := &pgx.Batch{}
	ask := func(query string, row func(row pgx.CollectableRow) error) {
		b.Queue(query, keys).Query(func(rows pgx.Rows) error { return each(rows, row) })
	}
	ask(`SELECT r.id, r.deleted, r.arrivals, r.points, (SELECT count(*) FROM ledger_skipped s WHERE s.run = r.id) FROM ledger_runs r WHERE r.id = ANY($1)`, func(row pgx.CollectableRow) error {
		var id []byte
		h := &Head{}
		err := row.Scan(&id, &h.Deleted, &h.Arrivals, &h.Points, &h.Skipped)
		copy(h.ID[:], id)
		out[h.ID] = h
		return err
	})
	ask(`SELECT run, number, precedence, opened, resume_from FROM ledger_attempts WHERE run = ANY($1) ORDER BY run, number`, func(row pgx.CollectableRow) error {
		var run []byte
		var a model.Attempt
		err := row.Scan(&run, &a.Number, &a.Precedence, &a.OpenedNs, &a.ResumeFrom)
		if err != nil {
			return err
		}
		h, err := headOf(out, run)
		if err == nil {
			h.Attempts = append(h.Attempts, a)
		}
		return err
	})
	ask(`SELECT w.run, w.id, w.attempt, w.logger, w.refused, coalesce(m.mark, 0) FROM ledger_writers w
		LEFT JOIN ledger_marks m ON m.writer = w.id AND m.run = w.run WHERE w.run = ANY($1) ORDER BY w.run, w.place`, func(row pgx.CollectableRow) error {
		var run, id []byte
		var w record.Writer
		var logger *int64
		var refused, mark int64
		err := row.Scan(&run, &id, &w.Attempt, &logger, &refused, &mark)
		if err != nil {
			return err
		}
		copy(w.ID[:], id)
		w.Logger, w.Refused, w.Mark = unsigned(logger), uint64(refused), uint64(mark)
		h, err := headOf(out, run)
		if err == nil {
			h.Writers = append(h.Writers, w)
		}
		return err
	})
	err := l.read(ctx, func(tx pgx.Tx) error { return tx.SendBatch(ctx, b).Close() })
	return out, err
}

func headOf(heads map[model.RunID]*Head, run []byte) (*Head, error) {
	if h := heads[model.RunID(run)]; h != nil {
		return h, nil
	}
	return nil, fmt.Errorf("the ledger has parts of run %s, and not the run", model.RunID(run))
}

// Whole is a run without its points, nil for one that is not known. What it lost is of its first
// writer: the ledger keeps it by run.
func (l *Ledger) Whole(ctx context.Context, id model.RunID) (*record.Run, error) {
	var out *record.Run
	err := l.read(ctx, func(tx pgx.Tx) error {
		found := &Run{ID: id}
		var points uint64
		err := tx.QueryRow(ctx, `SELECT deleted, arrivals, points FROM ledger_runs WHERE id = $1`, id[:]).Scan(&found.Deleted, &found.Arrivals, &points)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err == nil {
			err = found.load(ctx, tx)
		}
		if err == nil {
			out = found.whole(points)
		}
		return err
	})
	if err != nil || out == nil || len(out.Writers) == 0 {
		return out, err
	}
	losses, err := l.Losses(ctx, id)
	out.Writers[0].Skipped = losses.Skipped
	return out, err
}

func (r *Run) whole(points uint64) *record.Run {
	out := &record.Run{ID: r.ID, Deleted: r.Deleted, Arrivals: r.Arrivals, Points: points, Attempts: r.Attempts}
	for _, w := range r.Writers {
		out.Writers = append(out.Writers, record.Writer{ID: w.ID, Attempt: w.Attempt, Logger: w.Logger, Refused: w.Refused, Mark: w.Mark})
	}
	for _, s := range r.Series {
		out.Series = append(out.Series, s.Series)
	}
	for key, at := range r.Starts {
		out.Starts = append(out.Starts, record.Start{Key: key, At: at})
	}
	return out
}
