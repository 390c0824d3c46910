package ledger

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/kymogram/kymogram/internal/model"
)

// Commit makes changes of several runs durable, in one transaction. lost names the runs whose
// lease another has: of their changes nothing is done. Each batch gets its position. Blocks are
// where points are that are in a log; without them all are inserted. An error means that nothing
// was done, but for [psql.Unknown], where that is not known until the next [Ledger.Take].
func (l *Ledger) Commit(ctx context.Context, changes []*Change, blocks []Block) (lost map[model.RunID]bool, err error) {
	defer l.counts.committed(time.Now(), &lost, &err)
	slices.SortFunc(changes, func(a, b *Change) int { return bytes.Compare(a.Run[:], b.Run[:]) })
	err = l.write(ctx, "commit a batch", func(tx pgx.Tx) error {
		held, gone, err := l.lock(ctx, tx, changes, blocks)
		lost = gone
		if err != nil || len(held) == 0 {
			return err
		}
		return tx.SendBatch(ctx, l.statements(held, blocks)).Close()
	})
	return lost, err
}

// lock locks the rows of the runs, in one order everywhere, and takes positions for batches and
// numbers for blocks.
func (l *Ledger) lock(ctx context.Context, tx pgx.Tx, changes []*Change, blocks []Block) (held []*Change, lost map[model.RunID]bool, err error) {
	ids, count := make([][]byte, len(changes)), len(blocks)
	for i, c := range changes {
		ids[i] = c.Run[:]
		count += len(c.Batches)
	}
	epochs := map[model.RunID]uint64{}
	positions := make([]uint64, 0, count)
	b := &pgx.Batch{}
	b.Queue(`SELECT id, epoch FROM ledger_runs WHERE id = ANY($1) ORDER BY id FOR UPDATE`, ids).Query(func(rows pgx.Rows) error {
		return each(rows, func(row pgx.CollectableRow) error {
			var id []byte
			var epoch uint64
			err := row.Scan(&id, &epoch)
			epochs[model.RunID(id)] = epoch
			return err
		})
	})
	b.Queue(`SELECT nextval('ledger_positions') FROM generate_series(1, $1)`, count).Query(func(rows pgx.Rows) error {
		return each(rows, func(row pgx.CollectableRow) error {
			var n uint64
			err := row.Scan(&n)
			positions = append(positions, n)
			return err
		})
	})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return nil, nil, err
	}
	for i := range blocks {
		blocks[i].number, positions = positions[0], positions[1:]
	}
	lost = map[model.RunID]bool{}
	for _, c := range changes {
		if epochs[c.Run] != c.Epoch {
			lost[c.Run] = true
			continue
		}
		for i := range c.Batches {
			c.Batches[i].Position, positions = positions[0], positions[1:]
		}
		held = append(held, c)
	}
	return held, lost, nil
}

// statements write changes, all rows of a table with one statement.
func (l *Ledger) statements(changes []*Change, blocks []Block) *pgx.Batch {
	b := &pgx.Batch{}
	l.queueRuns(b, changes, blocks)
	l.queueAttempts(b, changes)
	l.queueWriters(b, changes)
	l.queueSeries(b, changes)
	l.queueStreams(b, changes)
	l.queueLedger(b, changes)
	return b
}

func (l *Ledger) queueRuns(b *pgx.Batch, changes []*Change, blocks []Block) {
	var runs, spans, deleted [][]byte
	var arrivals, points, epochs, lasts, logged []int64
	later := lastBlocks(blocks)
	for _, c := range changes {
		if c.Last > 0 {
			count, block := int64(c.Points), int64(later[c.Run])
			if block > 0 {
				count = 0 // the drain counts them
			}
			runs, arrivals, points, logged = append(runs, c.Run[:]), append(arrivals, c.Arrivals), append(points, count), append(logged, block)
			spans, epochs, lasts = append(spans, c.Run[:]), append(epochs, int64(c.Epoch)), append(lasts, int64(c.Last))
		}
		if c.Delete {
			deleted = append(deleted, c.Run[:])
		}
	}
	if len(runs) > 0 {
		b.Queue(`UPDATE ledger_runs r SET arrivals = greatest(r.arrivals, n.arrivals), points = r.points + n.points, logged = greatest(r.logged, n.logged)
			FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[]) AS n (run, arrivals, points, logged) WHERE r.id = n.run`, runs, arrivals, points, logged)
		b.Queue(`INSERT INTO ledger_spans (run, epoch, last, first) SELECT run, epoch, last, epoch FROM unnest($1::bytea[], $2::bigint[], $3::bigint[]) AS n (run, epoch, last)
			ON CONFLICT (run, epoch) DO UPDATE SET last = excluded.last`, spans, epochs, lasts)
	}
	queueBlocks(b, changes, blocks)
	if len(deleted) > 0 {
		b.Queue(`UPDATE ledger_runs SET deleted = TRUE, points = 0 WHERE id = ANY($1)`, deleted)
		for _, table := range []string{"ledger_series", "ledger_streams", "ledger_starts", "ledger_attempts"} {
			b.Queue(`DELETE FROM `+table+` WHERE run = ANY($1)`, deleted)
		}
	}
}

func (l *Ledger) queueAttempts(b *pgx.Batch, changes []*Change) {
	var runs [][]byte
	var numbers, precedences, opened []int64
	var resumes []*int64
	for _, c := range changes {
		for _, a := range c.Attempts {
			runs, numbers, precedences = append(runs, c.Run[:]), append(numbers, int64(a.Number)), append(precedences, a.Precedence)
			opened, resumes = append(opened, a.OpenedNs), append(resumes, a.ResumeFrom)
		}
	}
	if len(runs) > 0 {
		b.Queue(`INSERT INTO ledger_attempts (run, number, precedence, opened, resume_from)
			SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
			ON CONFLICT (run, number) DO UPDATE SET resume_from = excluded.resume_from`, runs, numbers, precedences, opened, resumes)
	}
}

func (l *Ledger) queueWriters(b *pgx.Batch, changes []*Change) {
	var runs, ids, marked, of [][]byte
	var places, attempts, refused, marks []int64
	var loggers []*int64
	var repinned []bool
	for _, c := range changes {
		for place, w := range c.Writers {
			runs, places, ids, attempts = append(runs, c.Run[:]), append(places, int64(place)), append(ids, w.ID[:]), append(attempts, int64(w.Attempt))
			loggers, repinned, refused = append(loggers, signed(w.Logger)), append(repinned, w.Repinned), append(refused, int64(w.Refused))
		}
		for w, mark := range c.Marks {
			marked, of, marks = append(marked, w[:]), append(of, c.Run[:]), append(marks, int64(mark))
		}
	}
	if len(runs) > 0 {
		b.Queue(`INSERT INTO ledger_writers (run, place, id, attempt, logger, repinned, refused)
			SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bytea[], $4::bigint[], $5::bigint[], $6::bool[], $7::bigint[])
			ON CONFLICT (run, place) DO UPDATE SET attempt = excluded.attempt, logger = excluded.logger, repinned = excluded.repinned, refused = excluded.refused`,
			runs, places, ids, attempts, loggers, repinned, refused)
	}
	if len(marked) > 0 {
		// A writer of another run breaks the primary key: its row is not updated, but inserted.
		b.Queue(`WITH n AS (SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::bigint[]) AS n (writer, run, mark)),
			old AS (UPDATE ledger_marks m SET mark = n.mark FROM n WHERE m.writer = n.writer AND m.run = n.run RETURNING m.writer)
			INSERT INTO ledger_marks (writer, run, mark) SELECT writer, run, mark FROM n WHERE writer NOT IN (SELECT writer FROM old)`, marked, of, marks)
	}
}

func (l *Ledger) queueSeries(b *pgx.Batch, changes []*Change) {
	var runs, keys, mixedRuns [][]byte
	var ids, mixed []int64
	var kinds []int16
	for _, c := range changes {
		for _, s := range c.Series {
			runs, ids, kinds, keys = append(runs, c.Run[:]), append(ids, int64(s.ID)), append(kinds, int16(s.Kind)), append(keys, []byte(s.Text))
		}
		for _, id := range c.Mixed {
			mixedRuns, mixed = append(mixedRuns, c.Run[:]), append(mixed, int64(id))
		}
	}
	if len(runs) > 0 {
		b.Queue(`INSERT INTO ledger_series (run, id, kind, key, known)
			SELECT run, id, kind, key, TRUE FROM unnest($1::bytea[], $2::bigint[], $3::smallint[], $4::bytea[]) AS n (run, id, kind, key)`, runs, ids, kinds, keys)
	}
	if len(mixed) > 0 {
		b.Queue(`UPDATE ledger_series s SET plain = FALSE FROM unnest($1::bytea[], $2::bigint[]) AS n (run, id) WHERE s.run = n.run AND s.id = n.id`, mixedRuns, mixed)
	}
}

// queueLedger writes starts, skipped ranges and updates.
func (l *Ledger) queueLedger(b *pgx.Batch, changes []*Change) {
	for _, c := range changes {
		for _, s := range c.Skipped {
			b.Queue(`INSERT INTO ledger_skipped (run, first, last, reason, points) VALUES ($1, $2, $3, $4, $5)`, c.Run[:], int64(s.First), int64(s.Last), []byte(s.Reason), int64(s.Points))
		}
		for _, u := range c.Batches {
			if len(u.Doc) > 0 {
				b.Queue(`INSERT INTO ledger_updates (position, node, run, lsn, writer, doc) VALUES ($1, $2, $3, $4, $5, $6)`, int64(u.Position), l.holder, c.Run[:], int64(u.LSN), u.Writer[:], u.Doc)
			}
		}
	}
	var runs [][]byte
	var writers, series, episodes, at []int64
	var episodic []bool
	for _, c := range changes {
		for _, s := range c.Starts {
			runs, writers, series = append(runs, c.Run[:]), append(writers, int64(s.Key.Writer)), append(series, int64(s.Key.Series))
			episodic, episodes, at = append(episodic, s.Key.Episodic), append(episodes, s.Key.Episode), append(at, s.At)
		}
	}
	if len(runs) > 0 {
		b.Queue(`INSERT INTO ledger_starts (run, writer, series, episodic, episode, at)
			SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bool[], $5::bigint[], $6::bigint[])`, runs, writers, series, episodic, episodes, at)
	}
}
