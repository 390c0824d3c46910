package ledger

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/curve"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
)

var _ curve.Source = (*Ledger)(nil)

// Facts implements [curve.Source].
func (l *Ledger) Facts(ctx context.Context, run model.RunID) (curve.Facts, error) {
	out := curve.Facts{Run: run}
	known := false
	b := &pgx.Batch{}
	b.Queue(`SELECT count(*) > 0 FROM ledger_runs WHERE id = $1 AND NOT deleted`, run[:]).QueryRow(func(row pgx.Row) error { return row.Scan(&known) })
	b.Queue(attemptsOf, run[:]).Query(func(rows pgx.Rows) error {
		return each(rows, func(row pgx.CollectableRow) error {
			a, err := readAttempt(row)
			out.Attempts = append(out.Attempts, a)
			return err
		})
	})
	b.Queue(spansOf, run[:]).Query(func(rows pgx.Rows) error {
		return each(rows, func(row pgx.CollectableRow) error {
			var epoch, last uint64
			err := row.Scan(&epoch, &last)
			out.Spans = append(out.Spans, curve.Span{First: LSN(epoch, 0), Last: LSN(epoch, last)})
			return err
		})
	})
	b.Queue(`SELECT id, logger FROM ledger_writers WHERE run = $1 AND repinned ORDER BY place`, run[:]).Query(func(rows pgx.Rows) error {
		return each(rows, func(row pgx.CollectableRow) error {
			var id []byte
			var logger *int64
			err := row.Scan(&id, &logger)
			pin := curve.Pin{Logger: unsigned(logger)}
			copy(pin.Writer[:], id)
			out.Pinned = append(out.Pinned, pin)
			return err
		})
	})
	err := l.read(ctx, func(tx pgx.Tx) error { return tx.SendBatch(ctx, b).Close() })
	if err == nil && (!known || len(out.Attempts) == 0) {
		err = notFound(run)
	}
	return out, err
}

func notFound(run model.RunID) error {
	return model.Errorf(model.CodeNotFound, "run %s is not known to the store", run)
}

// read sees one moment.
func (l *Ledger) read(ctx context.Context, f func(tx pgx.Tx) error) error {
	tx, err := l.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return failure("read the ledger", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // it changed nothing
	return failure("read the ledger", f(tx))
}

// pageRows is how many series are read at once where a filter is a function.
const pageRows = 1000

// SeriesPage implements [curve.Source].
func (l *Ledger) SeriesPage(ctx context.Context, run model.RunID, f store.SeriesFilter) (page []curve.Series, more bool, err error) {
	low, strict := []byte(f.After), f.After != ""
	var high []byte
	if f.Metric != "" { // a key begins with the metric and a zero byte
		if first := []byte(f.Metric + "\x00"); !strict || bytes.Compare(low, first) < 0 {
			low, strict = first, false
		}
		high = []byte(f.Metric + "\x01")
	}
	var kinds []int16
	for _, k := range f.Kinds {
		kinds = append(kinds, int16(k))
	}
	rows := pageRows
	if f.Match == nil {
		rows = f.Limit + 1
	}
	for {
		part, err := l.seriesWhere(ctx, run, `(key > $2 OR key = $2 AND NOT $3) AND ($4::bytea IS NULL OR key < $4) AND ($5::smallint[] IS NULL OR kind = ANY($5))
			ORDER BY key LIMIT $6`, low, strict, high, kinds, rows)
		if err != nil {
			return nil, false, err
		}
		for _, s := range part {
			if f.Match != nil && !f.Match(s.Key) {
				continue
			}
			if len(page) == f.Limit {
				return page, true, nil
			}
			page = append(page, s)
		}
		if len(part) < rows {
			return page, false, nil
		}
		low, strict = []byte(part[len(part)-1].Text), true
	}
}

// Series implements [curve.Source].
func (l *Ledger) Series(ctx context.Context, run model.RunID, ids []store.SeriesID) ([]curve.Series, error) {
	numbers := make([]int64, len(ids))
	for i, id := range ids {
		numbers[i] = int64(id)
	}
	return l.seriesWhere(ctx, run, `id = ANY($2)`, numbers)
}

// seriesWhere lists series; a condition's parameters are from $2 on.
func (l *Ledger) seriesWhere(ctx context.Context, run model.RunID, condition string, args ...any) ([]curve.Series, error) {
	var out []curve.Series
	var attempts []model.Attempt
	var of []uint32
	b := &pgx.Batch{}
	b.Queue(`SELECT id, kind, key, plain, attempt FROM ledger_series WHERE run = $1 AND `+condition, slices.Concat([]any{run[:]}, args)...).Query(func(rows pgx.Rows) error {
		return each(rows, func(row pgx.CollectableRow) error {
			var s curve.Series
			var key []byte
			var kind int16
			var attempt uint32
			err := row.Scan(&s.ID, &kind, &key, &s.Plain, &attempt)
			s.Kind, s.Text = model.Kind(kind), string(key)
			s.Key, _ = model.ParseSeriesKey(s.Text) // what is stored is one
			out, of = append(out, s), append(of, attempt)
			return err
		})
	})
	b.Queue(attemptsOf, run[:]).Query(func(rows pgx.Rows) error {
		return each(rows, func(row pgx.CollectableRow) error {
			a, err := readAttempt(row)
			attempts = append(attempts, a)
			return err
		})
	})
	err := l.read(ctx, func(tx pgx.Tx) error { return tx.SendBatch(ctx, b).Close() })
	for i := range out {
		out[i].Plain = out[i].Plain && !cut(attempts, of[i])
	}
	return out, err
}

// cut reports whether an attempt that resumed somewhere may hide points of another one.
func cut(attempts []model.Attempt, number uint32) bool {
	at, ok := record.FindAttempt(attempts, number)
	return !ok || slices.ContainsFunc(attempts, func(a model.Attempt) bool {
		later := a.Precedence > attempts[at].Precedence || a.Precedence == attempts[at].Precedence && a.Number > number
		return later && a.ResumeFrom != nil
	})
}

// Mark is the last sequence of a writer that is durable, and its run; 0 for an unknown writer.
func (l *Ledger) Mark(ctx context.Context, w model.WriterID) (mark uint64, run model.RunID, err error) {
	var stored int64
	var id []byte
	err = l.pool.QueryRow(ctx, `SELECT mark, run FROM ledger_marks WHERE writer = $1`, w[:]).Scan(&stored, &id)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, run, nil
	}
	copy(run[:], id)
	return uint64(stored), run, failure("read a mark", err)
}

// Losses are what a run's writers lost and were refused, and how many series it has.
func (l *Ledger) Losses(ctx context.Context, run model.RunID) (out store.RunStats, err error) {
	b := &pgx.Batch{}
	b.Queue(`SELECT coalesce(sum(refused), 0)::bigint FROM ledger_writers WHERE run = $1`, run[:]).QueryRow(func(row pgx.Row) error { return row.Scan(&out.Refused) })
	b.Queue(`SELECT count(*) FROM ledger_series WHERE run = $1`, run[:]).QueryRow(func(row pgx.Row) error { return row.Scan(&out.Series) })
	b.Queue(`SELECT first, last, reason, points FROM ledger_skipped WHERE run = $1 ORDER BY number`, run[:]).Query(func(rows pgx.Rows) error {
		return each(rows, func(row pgx.CollectableRow) error {
			var first, last, points int64
			var reason []byte
			err := row.Scan(&first, &last, &reason, &points)
			out.Skipped = append(out.Skipped, model.Skipped{First: uint64(first), Last: uint64(last), Reason: string(reason), Points: uint64(points)})
			return err
		})
	})
	err = l.read(ctx, func(tx pgx.Tx) error { return tx.SendBatch(ctx, b).Close() })
	return out, err
}

// Count is how many runs, series and points there are.
func (l *Ledger) Count(ctx context.Context) (runs, series, points uint64, err error) {
	err = l.pool.QueryRow(ctx, `SELECT count(*), coalesce(sum(points), 0)::bigint, (SELECT count(*) FROM ledger_series) FROM ledger_runs WHERE NOT deleted`).Scan(&runs, &points, &series)
	return runs, series, points, failure("count runs", err)
}
