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
)

var _ curve.Source = (*Ledger)(nil)

// factsOf is one statement, so that it sees one moment with one round trip.
const factsOf = `SELECT
	ARRAY(SELECT number FROM ledger_attempts WHERE run = $1 ORDER BY number),
	ARRAY(SELECT precedence FROM ledger_attempts WHERE run = $1 ORDER BY number),
	ARRAY(SELECT opened FROM ledger_attempts WHERE run = $1 ORDER BY number),
	ARRAY(SELECT resume_from FROM ledger_attempts WHERE run = $1 ORDER BY number),
	ARRAY(SELECT first FROM ledger_spans WHERE run = $1 ORDER BY epoch),
	ARRAY(SELECT epoch FROM ledger_spans WHERE run = $1 ORDER BY epoch),
	ARRAY(SELECT last FROM ledger_spans WHERE run = $1 ORDER BY epoch),
	ARRAY(SELECT id FROM ledger_writers WHERE run = $1 AND repinned ORDER BY place),
	ARRAY(SELECT logger FROM ledger_writers WHERE run = $1 AND repinned ORDER BY place),
	points, shard,
	CASE WHEN logged > 0 AND EXISTS (SELECT 1 FROM ledger_blocks b WHERE b.shard = r.shard AND b.number BETWEEN 1 AND r.logged AND r.id = ANY(b.runs)) THEN logged ELSE 0 END,
	ARRAY(SELECT first FROM ` + spansOfDrains + ` ORDER BY epoch),
	ARRAY(SELECT epoch FROM ` + spansOfDrains + ` ORDER BY epoch),
	ARRAY(SELECT last FROM ` + spansOfDrains + ` ORDER BY epoch)
	FROM ledger_runs r WHERE id = $1 AND NOT deleted`

// Facts implements [curve.Source].
func (l *Ledger) Facts(ctx context.Context, run model.RunID) (curve.Facts, error) {
	out := curve.Facts{Run: run}
	var numbers, precedences, opened []int64
	var firsts, epochs, lasts, drainFirsts, drainEpochs, drainLasts []uint64
	var resumes, loggers []*int64
	var writers [][]byte
	err := l.pool.QueryRow(ctx, factsOf, run[:]).Scan(&numbers, &precedences, &opened, &resumes, &firsts, &epochs, &lasts, &writers, &loggers, &out.Points, &out.Shard,
		&out.Logged, &drainFirsts, &drainEpochs, &drainLasts)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && len(numbers) == 0 {
		return out, notFound(run)
	}
	for i, n := range numbers {
		out.Attempts = append(out.Attempts, model.Attempt{Number: uint32(n), Precedence: precedences[i], OpenedNs: opened[i], ResumeFrom: resumes[i]})
	}
	for i := range epochs {
		out.Spans = append(out.Spans, curve.Span{First: LSN(firsts[i], 0), Last: LSN(epochs[i], lasts[i])})
	}
	out.Spans = append(out.Spans, drained(drainFirsts, drainEpochs, drainLasts)...)
	for i, id := range writers {
		out.Pinned = append(out.Pinned, curve.Pin{Writer: model.WriterID(id), Logger: unsigned(loggers[i])})
	}
	return out, failure("read the ledger", err)
}

func notFound(run model.RunID) error {
	return model.Errorf(model.CodeNotFound, "run %s is not known to the store", run)
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

// seriesQuery reads series with their streams, a row for each. A plain one without streams is so no
// more where a later attempt that resumed somewhere may hide points of its own. Streams are looked
// up for each series: where PostgreSQL expects few of a run, it would compare all series with all
// streams.
func seriesQuery(condition string) string {
	return `SELECT s.id, s.kind, s.key, s.known, s.plain, w.id, w.logger, ` + streamColumns + `
		FROM (SELECT id, kind, key, known, plain AND NOT EXISTS (SELECT 1 FROM ledger_attempts a JOIN ledger_attempts own ON own.run = a.run AND own.number = s.attempt
			WHERE a.run = s.run AND a.resume_from IS NOT NULL AND (a.precedence, a.number) > (own.precedence, own.number)) AS plain
			FROM ledger_series s WHERE run = $1 AND ` + condition + `) s
		LEFT JOIN LATERAL (SELECT * FROM ledger_streams WHERE run = $1 AND series = s.id OFFSET 0) t ON TRUE
		LEFT JOIN LATERAL (SELECT id, logger FROM ledger_writers WHERE run = $1 AND place = t.writer OFFSET 0) w ON TRUE ORDER BY s.key`
}

// seriesWhere lists series; a condition's parameters are from $2 on.
func (l *Ledger) seriesWhere(ctx context.Context, run model.RunID, condition string, args ...any) ([]curve.Series, error) {
	rows, err := l.pool.Query(ctx, seriesQuery(condition), slices.Concat([]any{run[:]}, args)...)
	if err != nil {
		return nil, failure("read the ledger", err)
	}
	var out []curve.Series
	err = each(rows, func(row pgx.CollectableRow) error {
		s, err := readSeries(row)
		if n := len(out); n > 0 && out[n-1].ID == s.ID {
			out[n-1].Streams = append(out[n-1].Streams, s.Streams...)
		} else {
			out = append(out, s)
		}
		return err
	})
	return out, failure("read the ledger", err)
}

// readSeries reads a series with one of its streams.
func readSeries(row pgx.CollectableRow) (s curve.Series, err error) {
	var key, writer []byte
	var kind int16
	var logger *int64
	var stream streamRow
	err = row.Scan(append([]any{&s.ID, &kind, &key, &s.Known, &s.Plain, &writer, &logger}, stream.into()...)...)
	s.Kind, s.Text = model.Kind(kind), string(key)
	s.Key, _ = model.ParseSeriesKey(s.Text) // what is stored is one
	if t, has := stream.stream(); has {
		s.Streams = []curve.Stream{{Writer: model.WriterID(writer), Logger: unsigned(logger), Attempt: t.Attempt, Tally: t.Tally}}
	}
	return s, err
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
