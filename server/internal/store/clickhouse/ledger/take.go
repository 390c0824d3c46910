package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/curve"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
)

// Take takes the lease of a run and reads the run. It waits while another holder may keep it.
// A run that is not known is made with create, else it is nil.
func (l *Ledger) Take(ctx context.Context, id model.RunID, create bool) (*Run, error) {
	for {
		r, wait, err := l.take(ctx, id, create)
		if err != nil || wait <= 0 {
			if r != nil && err == nil {
				l.counts.taken.Add(1)
			}
			return r, err
		}
		pause := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			pause.Stop()
			return nil, failure("take the lease of a run", ctx.Err())
		case <-pause.C:
		}
	}
}

// take tries once; wait is how long another holder keeps the lease. A lease from the future keeps
// nobody off: the clock went back, such as at a failover.
func (l *Ledger) take(ctx context.Context, id model.RunID, create bool) (r *Run, wait time.Duration, err error) {
	err = l.write(ctx, "take the lease of a run", func(tx pgx.Tx) error {
		if create {
			if _, err := tx.Exec(ctx, `INSERT INTO ledger_runs (id, shard) VALUES ($1, $2) ON CONFLICT DO NOTHING`, id[:], curve.Shard(id, l.shards)); err != nil {
				return err
			}
		}
		found := &Run{ID: id}
		err := tx.QueryRow(ctx, `UPDATE ledger_runs SET epoch = epoch + 1, holder = $2, taken = clock_timestamp()
			WHERE id = $1 AND (holder = $2 OR taken <= clock_timestamp() - make_interval(secs => $3) OR taken > clock_timestamp())
			RETURNING epoch, shard, deleted, arrivals`, id[:], l.holder, l.hold.Seconds()).Scan(&found.Epoch, &found.Shard, &found.Deleted, &found.Arrivals)
		if errors.Is(err, pgx.ErrNoRows) {
			wait, err = l.waitFor(ctx, tx, id)
			return err
		}
		if err != nil {
			return err
		}
		r = found
		return r.load(ctx, tx)
	})
	return r, wait, err
}

// waitFor is how long the holder of a lease keeps it, 0 for a run that is not known.
func (l *Ledger) waitFor(ctx context.Context, tx pgx.Tx, id model.RunID) (time.Duration, error) {
	var seconds float64
	err := tx.QueryRow(ctx, `SELECT extract(epoch FROM taken - clock_timestamp())::float8 FROM ledger_runs WHERE id = $1`, id[:]).Scan(&seconds)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	return max(l.hold+time.Duration(seconds*float64(time.Second)), time.Millisecond), err
}

// load reads what belongs to a run whose row is locked, in one round trip.
func (r *Run) load(ctx context.Context, tx pgx.Tx) error {
	r.Starts, r.Spans = map[record.StartKey]int64{}, map[uint64]uint64{}
	b := &pgx.Batch{}
	ask := func(query string, row func(rows pgx.CollectableRow) error) {
		b.Queue(query, r.ID[:]).Query(func(rows pgx.Rows) error { return each(rows, row) })
	}
	ask(attemptsOf, func(row pgx.CollectableRow) error {
		a, err := readAttempt(row)
		r.Attempts = append(r.Attempts, a)
		return err
	})
	ask(`SELECT w.id, w.attempt, w.logger, w.repinned, w.refused, coalesce(m.mark, 0) FROM ledger_writers w
		LEFT JOIN ledger_marks m ON m.writer = w.id AND m.run = w.run WHERE w.run = $1 ORDER BY w.place`, func(row pgx.CollectableRow) error {
		var w Writer
		var id []byte
		var logger *int64
		var refused, mark int64
		err := row.Scan(&id, &w.Attempt, &logger, &w.Repinned, &refused, &mark)
		copy(w.ID[:], id)
		w.Logger, w.Refused, w.Mark = unsigned(logger), uint64(refused), uint64(mark)
		r.Writers = append(r.Writers, w)
		return err
	})
	ask(`SELECT id, kind, key, known, plain FROM ledger_series WHERE run = $1 ORDER BY id`, func(row pgx.CollectableRow) error {
		var s Series
		var key []byte
		var kind int16
		err := row.Scan(&s.ID, &kind, &key, &s.Known, &s.Plain)
		s.Kind, s.Text = model.Kind(kind), string(key)
		r.Series = append(r.Series, s)
		return err
	})
	ask(`SELECT series, `+streamColumns+` FROM ledger_streams WHERE run = $1 ORDER BY series, writer, attempt`, func(row pgx.CollectableRow) error {
		var series uint32
		var s streamRow
		if err := row.Scan(append([]any{&series}, s.into()...)...); err != nil {
			return err
		}
		if int(series) >= len(r.Series) {
			return fmt.Errorf("the ledger has points of series %d, and not the series", series)
		}
		if found, has := s.stream(); has {
			r.Series[series].Streams = append(r.Series[series].Streams, found)
		}
		return nil
	})
	ask(`SELECT writer, series, episodic, episode, at FROM ledger_starts WHERE run = $1`, func(row pgx.CollectableRow) error {
		var key record.StartKey
		var at int64
		err := row.Scan(&key.Writer, &key.Series, &key.Episodic, &key.Episode, &at)
		r.Starts[key] = at
		return err
	})
	ask(spansOf, func(row pgx.CollectableRow) error {
		var first, epoch, last uint64
		err := row.Scan(&first, &epoch, &last)
		r.Spans[epoch] = last
		return err
	})
	return tx.SendBatch(ctx, b).Close()
}

const (
	attemptsOf = `SELECT number, precedence, opened, resume_from FROM ledger_attempts WHERE run = $1 ORDER BY number`
	spansOf    = `SELECT first, epoch, last FROM ledger_spans WHERE run = $1 ORDER BY epoch`
)

func readAttempt(row pgx.CollectableRow) (a model.Attempt, err error) {
	err = row.Scan(&a.Number, &a.Precedence, &a.OpenedNs, &a.ResumeFrom)
	return a, err
}

func each(rows pgx.Rows, take func(row pgx.CollectableRow) error) error {
	defer rows.Close()
	for rows.Next() {
		if err := take(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// unsigned reads a number that lies in the bits of a signed one.
func unsigned(v *int64) *uint64 {
	if v == nil {
		return nil
	}
	n := uint64(*v)
	return &n
}

func signed(v *uint64) *int64 {
	if v == nil {
		return nil
	}
	n := int64(*v)
	return &n
}
