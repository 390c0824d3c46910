package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"math"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
)

// attemptRow is an attempt with what its place in the order follows from.
type attemptRow struct {
	model.Attempt
	orchestration string
	restarts      *int64
}

func (a *attemptRow) count() int64 {
	if a.restarts == nil {
		return 0
	}
	return *a.restarts
}

// orderInJob compares attempts of one orchestration id.
func orderInJob(a, b *attemptRow) int {
	return cmp.Or(cmp.Compare(a.count(), b.count()), cmp.Compare(a.OpenedNs, b.OpenedNs))
}

func readAttempts(ctx context.Context, q querier, run int64) ([]attemptRow, error) {
	return collect(ctx, q, func(rows *sql.Rows) (attemptRow, error) {
		var a attemptRow
		err := rows.Scan(&a.Number, &a.Precedence, &a.OpenedNs, &a.ResumeFrom, &a.orchestration, &a.restarts)
		return a, err
	}, `SELECT number, precedence, opened_ns, resume_from, orchestration_id, restart_count FROM attempts WHERE run = ? ORDER BY number`, run)
}

func readAttempt(ctx context.Context, q querier, run int64, number uint32) (model.Attempt, error) {
	var a model.Attempt
	err := q.QueryRowContext(ctx, `SELECT number, precedence, opened_ns, resume_from FROM attempts WHERE run = ? AND number = ?`, run, number).
		Scan(&a.Number, &a.Precedence, &a.OpenedNs, &a.ResumeFrom)
	return a, err
}

// resolveAttempt finds the attempt that a new writer joins, or opens one.
func (o *opening) resolveAttempt(ctx context.Context, run *runRow) (model.Attempt, error) {
	attempts, err := readAttempts(ctx, o.tx, run.pk)
	if err != nil {
		return model.Attempt{}, err
	}
	number, err := o.joinable(ctx, run, attempts)
	if err != nil {
		return model.Attempt{}, err
	}
	if i := slices.IndexFunc(attempts, func(a attemptRow) bool { return a.Number == number }); i >= 0 {
		return o.join(ctx, run, attempts[i].Attempt)
	}
	return o.newAttempt(ctx, run, attempts)
}

// joinable is the number of the attempt to join, 0 for none. In order: the
// restart count names it; children named it before their parent came; the
// parent is in it; it lacks this rank, which was offline; a writer of the job's
// latest attempt is open.
func (o *opening) joinable(ctx context.Context, run *runRow, attempts []attemptRow) (uint32, error) {
	if o.r.RestartCount != nil {
		for _, a := range attempts {
			if a.orchestration == o.r.OrchestrationID && a.restarts != nil && *a.restarts == *o.r.RestartCount {
				return a.Number, nil
			}
		}
		return 0, nil
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
		number, err = o.attemptOfOtherRanks(ctx, run, attempts)
		if number > 0 || err != nil {
			return number, err
		}
	}
	return o.latestOpen(ctx, run, attempts)
}

// attemptOfOtherRanks is where a rank that began offline belongs: to the job's
// attempt that lacks it and was opened nearest to it. Ranks of several hosts are
// delivered one host after the other, so none of the others need be open still.
func (o *opening) attemptOfOtherRanks(ctx context.Context, run *runRow, attempts []attemptRow) (uint32, error) {
	having, err := collect(ctx, o.tx, func(rows *sql.Rows) (number uint32, err error) {
		return number, rows.Scan(&number)
	}, `SELECT DISTINCT attempt FROM writers WHERE run = ? AND rank = ? AND `+noObserver, run.id[:], *o.r.Rank)
	if err != nil {
		return 0, err
	}
	var found uint32
	nearest := int64(math.MaxInt64)
	for _, a := range attempts {
		if a.orchestration != o.r.OrchestrationID || a.restarts != nil || slices.Contains(having, a.Number) {
			continue
		}
		if d := max(a.OpenedNs, o.openedNs) - min(a.OpenedNs, o.openedNs); d < nearest {
			found, nearest = a.Number, d
		}
	}
	return found, nil
}

func (o *opening) attemptOfParent(ctx context.Context, run *runRow, parent model.WriterID) (uint32, error) {
	var number uint32
	err := o.tx.QueryRowContext(ctx, `SELECT attempt FROM writers WHERE id = ? AND run = ?
		UNION ALL SELECT attempt FROM parents WHERE run = ? AND writer = ? LIMIT 1`, parent[:], run.id[:], run.pk, parent[:]).Scan(&number)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return number, err
}

func (o *opening) latestOpen(ctx context.Context, run *runRow, attempts []attemptRow) (uint32, error) {
	latest := model.Attempt{Precedence: math.MinInt64}
	for _, a := range attempts {
		if a.orchestration == o.r.OrchestrationID && a.Precedence >= latest.Precedence {
			latest = a.Attempt
		}
	}
	var open bool
	err := o.tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM writers WHERE run = ? AND attempt = ? AND state = ? AND `+noObserver+`)`,
		run.id[:], latest.Number, model.WriterOpen).Scan(&open)
	if err != nil || !open {
		return 0, err
	}
	return latest.Number, nil
}

// join adds a writer to an attempt: it lowers ResumeFrom to the smallest given.
func (o *opening) join(ctx context.Context, run *runRow, a model.Attempt) (model.Attempt, error) {
	if s := o.r.ResumeFromStep; s != nil && (a.ResumeFrom == nil || *s < *a.ResumeFrom) {
		a.ResumeFrom = s
		if err := exec(ctx, o.tx, `UPDATE attempts SET resume_from = ? WHERE run = ? AND number = ?`, *s, run.pk, a.Number); err != nil {
			return a, err
		}
	}
	return a, o.rememberParent(ctx, run, a.Number)
}

// rememberParent makes a parent that comes after its children join them.
func (o *opening) rememberParent(ctx context.Context, run *runRow, number uint32) error {
	if o.r.ParentAttempt == nil {
		return nil
	}
	return exec(ctx, o.tx, `INSERT INTO parents (run, writer, attempt) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`, run.pk, o.r.ParentAttempt[:], number)
}

func (o *opening) newAttempt(ctx context.Context, run *runRow, attempts []attemptRow) (model.Attempt, error) {
	a := attemptRow{orchestration: o.r.OrchestrationID, restarts: o.r.RestartCount}
	a.OpenedNs, a.ResumeFrom, a.Number = o.openedNs, o.r.ResumeFromStep, 1
	for _, other := range attempts {
		a.Number = max(a.Number, other.Number+1)
	}
	a.Precedence = precedence(&a, attempts)
	err := exec(ctx, o.tx, `INSERT INTO attempts (run, number, precedence, opened_ns, resume_from, orchestration_id, restart_count) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		run.pk, a.Number, a.Precedence, a.OpenedNs, a.ResumeFrom, a.orchestration, a.restarts)
	if err != nil {
		return a.Attempt, err
	}
	err = exec(ctx, o.tx, `UPDATE runs SET attempt = (SELECT number FROM attempts WHERE run = ?1 ORDER BY precedence DESC, number DESC LIMIT 1) WHERE pk = ?1`, run.pk)
	if err != nil {
		return a.Attempt, err
	}
	return a.Attempt, o.rememberParent(ctx, run, a.Number)
}

// precedenceGap is the room that is left when an attempt must go before another
// that a skewed clock put too early: 1 ms in the ns of opening times.
const precedenceGap = 1_000_000

// precedence places a new attempt: its opening time, moved where that would
// contradict the order (restart count, opening time) inside its job. It is fixed
// once given, since engines keep it.
func precedence(a *attemptRow, others []attemptRow) int64 {
	lo, hi := int64(math.MinInt64), int64(math.MaxInt64)
	for i := range others {
		b := &others[i]
		if b.orchestration != a.orchestration {
			continue
		}
		if orderInJob(b, a) <= 0 {
			lo = max(lo, b.Precedence)
		} else {
			hi = min(hi, b.Precedence)
		}
	}
	p := a.OpenedNs
	switch {
	case p > lo && p < hi:
	case p <= lo && (hi == math.MaxInt64 || hi <= lo):
		p = lo + 1
	case lo == math.MinInt64:
		p = hi - precedenceGap
	default:
		p = lo + (hi-lo)/2
	}
	return distinct(p, others)
}

// distinct moves p up until no attempt has it.
func distinct(p int64, others []attemptRow) int64 {
	for slices.ContainsFunc(others, func(b attemptRow) bool { return b.Precedence == p }) {
		p++
	}
	return p
}
