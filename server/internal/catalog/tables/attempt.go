package tables

import (
	"context"
	"database/sql"
	"errors"
	"math"

	"github.com/kymogram/kymogram/internal/model"
)

func readAttempts(ctx context.Context, q Querier, run int64) ([]model.Attempt, error) {
	return Collect(ctx, q, func(rows *sql.Rows) (a model.Attempt, err error) {
		err = rows.Scan(&a.Number, &a.Precedence, &a.OpenedNs, &a.ResumeFrom)
		return a, err
	}, `SELECT number, precedence, opened_ns, resume_from FROM attempts WHERE run = ? ORDER BY number`, run)
}

func readAttempt(ctx context.Context, q Querier, run int64, number uint32) (model.Attempt, error) {
	var a model.Attempt
	err := q.QueryRowContext(ctx, `SELECT number, precedence, opened_ns, resume_from FROM attempts WHERE run = ? AND number = ?`, run, number).
		Scan(&a.Number, &a.Precedence, &a.OpenedNs, &a.ResumeFrom)
	return a, err
}

// resolveAttempt finds the attempt that a new writer joins, or opens one. It reads
// neighbours along indexes: a run may have had thousands of attempts.
func (o *opening) resolveAttempt(ctx context.Context, run *runRow) (model.Attempt, error) {
	if run.created { // it has none to join or to go beside
		a := model.Attempt{Number: 1, Precedence: between(o.openedNs, math.MinInt64, math.MaxInt64), OpenedNs: o.openedNs, ResumeFrom: o.r.ResumeFromStep}
		return a, o.addAttempt(ctx, run, &a)
	}
	number, err := o.joinable(ctx, run)
	if err != nil {
		return model.Attempt{}, err
	}
	if number > 0 {
		a, err := readAttempt(ctx, o.tx, run.pk, number)
		if err == nil {
			err = o.join(ctx, run, &a)
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return a, err
		}
	}
	return o.newAttempt(ctx, run)
}

// joinable is the number of the attempt to join, 0 for none. In order: the
// restart count names it; children named it before their parent came; the
// parent is in it; it lacks this rank, which was offline; a writer of the job's
// latest attempt is open.
func (o *opening) joinable(ctx context.Context, run *runRow) (uint32, error) {
	if o.r.RestartCount != nil {
		return first[uint32](ctx, o.tx, `SELECT number FROM attempts WHERE run = ? AND orchestration_id = ? AND restart_count = ?`,
			run.pk, o.r.OrchestrationID, *o.r.RestartCount)
	}
	number, err := o.attemptOfParent(ctx, run, o.r.Writer)
	if number > 0 || err != nil {
		return number, err
	}
	if o.r.ParentAttempt != nil {
		number, err = o.attemptOfParent(ctx, run, *o.r.ParentAttempt)
		if number > 0 || err != nil {
			return number, err
		}
	}
	if o.r.Offline && o.r.Rank != nil {
		number, err = o.attemptOfOtherRanks(ctx, run)
		if number > 0 || err != nil {
			return number, err
		}
	}
	return o.latestOpen(ctx, run)
}

// first is the first value of a query, zero when it has none.
func first[T any](ctx context.Context, q Querier, query string, args ...any) (v T, err error) {
	err = q.QueryRowContext(ctx, query, args...).Scan(&v)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return v, err
}

// attemptOfOtherRanks is where a rank that began offline belongs: to the job's
// attempt that lacks it and was opened nearest to it. Ranks of several hosts are
// delivered one host after the other, so none of the others need be open still.
func (o *opening) attemptOfOtherRanks(ctx context.Context, run *runRow) (uint32, error) {
	return first[uint32](ctx, o.tx, `SELECT number FROM attempts a
		WHERE a.run = ?1 AND a.orchestration_id = ?2 AND a.restart_count IS NULL
		AND NOT EXISTS (SELECT 1 FROM writers w WHERE w.run = ?3 AND w.attempt = a.number AND w.rank = ?4 AND w.`+noObserver+`)
		ORDER BY abs(a.opened_ns - ?5), a.number LIMIT 1`, run.pk, o.r.OrchestrationID, run.id[:], *o.r.Rank, o.openedNs)
}

func (o *opening) attemptOfParent(ctx context.Context, run *runRow, parent model.WriterID) (uint32, error) {
	return first[uint32](ctx, o.tx, `SELECT attempt FROM writers WHERE id = ? AND run = ?
		UNION ALL SELECT attempt FROM parents WHERE run = ? AND writer = ? LIMIT 1`, parent[:], run.id[:], run.pk, parent[:])
}

func (o *opening) latestOpen(ctx context.Context, run *runRow) (uint32, error) {
	return first[uint32](ctx, o.tx, latestIfOpen, run.pk, o.r.OrchestrationID, run.id[:], model.WriterOpen)
}

// join adds a writer to an attempt: it lowers ResumeFrom to the smallest given.
func (o *opening) join(ctx context.Context, run *runRow, a *model.Attempt) error {
	if s := o.r.ResumeFromStep; s != nil && (a.ResumeFrom == nil || *s < *a.ResumeFrom) {
		a.ResumeFrom = s
		if err := Exec(ctx, o.tx, `UPDATE attempts SET resume_from = ? WHERE run = ? AND number = ?`, *s, run.pk, a.Number); err != nil {
			return err
		}
	}
	return o.rememberParent(ctx, run, a.Number)
}

// rememberParent makes a parent that comes after its children join them.
func (o *opening) rememberParent(ctx context.Context, run *runRow, number uint32) error {
	if o.r.ParentAttempt == nil {
		return nil
	}
	return Exec(ctx, o.tx, `INSERT INTO parents (run, writer, attempt) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`, run.pk, o.r.ParentAttempt[:], number)
}

func (o *opening) newAttempt(ctx context.Context, run *runRow) (model.Attempt, error) {
	a := model.Attempt{OpenedNs: o.openedNs, ResumeFrom: o.r.ResumeFromStep}
	lo, hi := int64(math.MinInt64), int64(math.MaxInt64) // its neighbours in the job
	err := o.tx.QueryRowContext(ctx, neighbours, run.pk, o.r.OrchestrationID, o.r.RestartCount, o.openedNs, lo, hi).Scan(&a.Number, &lo, &hi)
	if err != nil {
		return a, err
	}
	if a.Precedence, err = o.distinct(ctx, run, between(o.openedNs, lo, hi), hi); err != nil {
		return a, err
	}
	if err := o.addAttempt(ctx, run, &a); err != nil {
		return a, err
	}
	return a, Exec(ctx, o.tx, `UPDATE runs SET attempt = (SELECT number FROM attempts WHERE run = ?1 ORDER BY precedence DESC, number DESC LIMIT 1) WHERE pk = ?1`, run.pk)
}

func (o *opening) addAttempt(ctx context.Context, run *runRow, a *model.Attempt) error {
	err := Exec(ctx, o.tx, `INSERT INTO attempts (run, number, precedence, opened_ns, resume_from, orchestration_id, restart_count) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		run.pk, a.Number, a.Precedence, a.OpenedNs, a.ResumeFrom, o.r.OrchestrationID, o.r.RestartCount)
	if err != nil {
		return err
	}
	return o.rememberParent(ctx, run, a.Number)
}

// The order of the attempts of a job: restart count, opening time. Each part walks
// the index attempts_job. Where the count is given, it is not in the order: SQLite
// would sort.
const (
	ofJob      = `SELECT precedence FROM attempts WHERE run = ?1 AND orchestration_id = ?2 AND coalesce(restart_count, 0) `
	lastOfRest = `opened_ns DESC, precedence DESC LIMIT 1`
	lastInJob  = `ORDER BY coalesce(restart_count, 0) DESC, ` + lastOfRest
	before     = `SELECT * FROM (` + ofJob + `= coalesce(CAST(?3 AS BIGINT), 0) AND opened_ns <= ?4 ORDER BY ` + lastOfRest + `) a
		UNION ALL SELECT * FROM (` + ofJob + `< coalesce(CAST(?3 AS BIGINT), 0) ` + lastInJob + `) a LIMIT 1`
	after = `SELECT * FROM (` + ofJob + `= coalesce(CAST(?3 AS BIGINT), 0) AND opened_ns > ?4 ORDER BY opened_ns, precedence LIMIT 1) a
		UNION ALL SELECT * FROM (` + ofJob + `> coalesce(CAST(?3 AS BIGINT), 0) ORDER BY coalesce(restart_count, 0), opened_ns, precedence LIMIT 1) a LIMIT 1`
	latestIfOpen = `SELECT number FROM (SELECT number FROM attempts WHERE run = ?1 AND orchestration_id = ?2 ` + lastInJob + `) a
		WHERE EXISTS (SELECT 1 FROM writers WHERE run = ?3 AND attempt = number AND state = ?4 AND ` + noObserver + `)`
	neighbours = `SELECT coalesce((SELECT number FROM attempts WHERE run = ?1 ORDER BY number DESC LIMIT 1), 0) + 1,
		coalesce((` + before + `), ?5), coalesce((` + after + `), ?6)`
)

// precedenceGap is the room that is left when an attempt must go before another
// that a skewed clock put too early: 1 ms in the ns of opening times.
const precedenceGap = 1_000_000

// between places a new attempt: its opening time p, moved where that would
// contradict lo and hi, its neighbours in the order of its job. It is fixed once
// given, since engines keep it.
func between(p, lo, hi int64) int64 {
	switch {
	case p > lo && p < hi:
		return p
	case p <= lo && (hi == math.MaxInt64 || hi <= lo):
		return lo + 1
	case lo == math.MinInt64:
		return hi - precedenceGap
	default:
		return lo + (hi-lo)/2
	}
}

// distinctStride is how many places one look passes over. Attempts of one run are
// rarely opened within a microsecond of one another, unless a clock is coarse.
const distinctStride = 1000

// distinct moves p up until no attempt has it, below hi while there is room.
func (o *opening) distinct(ctx context.Context, run *runRow, p, hi int64) (int64, error) {
	const highest = `SELECT precedence FROM attempts WHERE run = ? AND precedence BETWEEN ? AND ? ORDER BY precedence DESC LIMIT 1`
	for {
		taken, err := first[*int64](ctx, o.tx, highest, run.pk, p, p)
		if err != nil || taken == nil {
			return p, err
		}
		end := p + distinctStride
		if p < hi {
			end = min(end, hi-1)
		}
		if taken, err = first[*int64](ctx, o.tx, highest, run.pk, p, end); err != nil {
			return p, err
		}
		p = *taken + 1
	}
}
