package clickhouse

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/local/decision"
)

// Pauses between two tries of a write.
const firstPause, longestPause = 5 * time.Millisecond, time.Second

// write does an act on a run that this server holds. It is tried again, from the start, when
// another server took the run or a server did not answer. A run that is not known is made with
// create; else it fails with unknown.
func (e *Engine) write(ctx context.Context, r *request, create bool, unknown error) error {
	var end time.Time
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := e.try(ctx, r, create, unknown)
		if !errors.As(err, new(again)) {
			return err
		}
		if end.IsZero() {
			end = time.Now().Add(e.cfg.Patience)
		}
		if ctx.Err() != nil || time.Now().After(end) || model.CodeOf(err) == model.CodeDiskFull {
			return told(err)
		}
		if errors.Is(err, errLost) {
			continue // it waits for the lease
		}
		wait := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			wait.Stop()
			return model.Errorf(model.CodeTimeout, "the write was not waited for: %v", ctx.Err())
		case <-wait.C:
		}
	}
}

func (e *Engine) try(ctx context.Context, r *request, create bool, unknown error) error {
	if e.closed.Load() {
		return model.Errorf(model.CodeUnavailable, "the store is closed")
	}
	l, err := e.leases.of(ctx, r.run, create)
	if err != nil {
		return again{err}
	}
	if l == nil {
		return unknown
	}
	r.lease = l
	return e.queue.do(ctx, r, e.process)
}

// told is what a caller gets for a failure that did not go away.
func told(err error) error {
	var known *model.Error
	if errors.As(err, &known) {
		return known
	}
	if errors.Is(err, errLost) {
		return model.Errorf(model.CodeUnavailable, "other servers write to the run all the time").WithHint("Send a run's points to one server.")
	}
	return model.Errorf(model.CodeUnavailable, "ClickHouse cannot be reached").
		WithHint("Look whether it runs and takes inserts; clients keep what was not acknowledged, and send it again.")
}

// PutAttempt implements [store.Engine].
func (e *Engine) PutAttempt(ctx context.Context, run model.RunID, a model.Attempt) error {
	a, err := attempt(a)
	if err != nil {
		return err
	}
	return e.write(ctx, &request{run: run, act: func(l *lease, _ *group) error { return l.putAttempt(a) }}, true, nil)
}

// attempt is a copy of a valid one.
func attempt(a model.Attempt) (model.Attempt, error) {
	if a.Number == 0 {
		return a, model.Errorf(model.CodeInvalid, "attempts are numbered from 1")
	}
	if a.ResumeFrom != nil {
		s := *a.ResumeFrom
		a.ResumeFrom = &s
	}
	return a, nil
}

// PutWriter implements [store.Engine].
func (e *Engine) PutWriter(ctx context.Context, run model.RunID, w model.WriterID, number uint32, loggerID *uint64) error {
	if w.IsZero() {
		return model.Errorf(model.CodeInvalid, "a writer needs an id")
	}
	logger := copied(loggerID)
	r := &request{run: run, act: func(l *lease, _ *group) error { return l.putWriter(w, number, logger) }}
	return e.write(ctx, r, false, unknownAttempt(run, number))
}

// PutOpen implements [store.Writer].
func (e *Engine) PutOpen(ctx context.Context, run model.RunID, a model.Attempt, w model.WriterID, loggerID *uint64) error {
	a, err := attempt(a)
	if err != nil {
		return err
	}
	if w.IsZero() {
		return model.Errorf(model.CodeInvalid, "a writer needs an id")
	}
	logger := copied(loggerID)
	return e.write(ctx, &request{run: run, act: func(l *lease, _ *group) error {
		if err := l.putAttempt(a); err != nil {
			return err
		}
		return l.putWriter(w, a.Number, logger)
	}}, true, nil)
}

func copied(v *uint64) *uint64 {
	if v == nil {
		return nil
	}
	n := *v
	return &n
}

// DeleteRun implements [store.Writer].
func (e *Engine) DeleteRun(ctx context.Context, run model.RunID) error {
	return e.write(ctx, &request{run: run, act: func(l *lease, _ *group) error { l.remove(); return nil }}, true, nil)
}

// Mark implements [store.Writer].
func (e *Engine) Mark(ctx context.Context, w model.WriterID) (uint64, error) {
	mark, _, err := e.ledger.Mark(ctx, w)
	return mark, err
}

// Append implements [store.Writer].
func (e *Engine) Append(ctx context.Context, b *model.Batch) (model.Ack, error) {
	if err := decision.Check(b); err != nil {
		return model.Ack{}, err
	}
	if err := e.learnOwner(ctx, b); err != nil {
		return model.Ack{}, err
	}
	var ack model.Ack
	r := &request{run: b.Run, points: points(b)}
	r.act = func(l *lease, g *group) (err error) {
		ack, err = e.append(l, g, b)
		return err
	}
	err := e.write(ctx, r, false, unknownAttempt(b.Run, b.Attempt))
	if err == nil {
		ack.LSN = r.position
	} else if model.CodeOf(err) != model.CodeGap {
		ack = model.Ack{}
	}
	return ack, err
}

func points(b *model.Batch) (n int) {
	for i := range b.Groups {
		n += b.Groups[i].Rows() * len(b.Groups[i].Columns)
	}
	return n
}

// learnOwner looks up a writer that is not known here.
func (e *Engine) learnOwner(ctx context.Context, b *model.Batch) error {
	if _, known := e.leases.owner(b.Writer); known || b.First == 0 {
		return nil
	}
	mark, run, err := e.ledger.Mark(ctx, b.Writer)
	if err == nil && mark > 0 {
		e.leases.own(b.Writer, run)
	}
	return err
}

// append decides about a batch, and adds its rows and its change to the group.
func (e *Engine) append(l *lease, g *group, b *model.Batch) (ack model.Ack, err error) {
	if owner, known := e.leases.owner(b.Writer); b.First > 0 && known && owner != b.Run {
		return ack, model.Errorf(model.CodeConflict, "writer %s belongs to another run", b.Writer)
	}
	if b.First > 0 {
		ack.Mark = l.mark(b.Writer)
		if b.Last <= ack.Mark {
			return ack, nil
		}
		if b.First != ack.Mark+1 {
			return ack, model.Errorf(model.CodeGap, "the next sequence of writer %s is %d, not %d", b.Writer, ack.Mark+1, b.First)
		}
	}
	if !l.Deleted && !l.hasAttempt(b.Attempt) {
		return ack, unknownAttempt(b.Run, b.Attempt)
	}
	ctx, cancel := context.WithTimeout(context.Background(), e.cfg.Patience)
	defer cancel()
	rec, refused, err := g.resolve(ctx, l, b)
	if err != nil {
		return ack, err
	}
	defer g.desk.Clear()
	if len(rec.Updates) > 0 {
		if rec.Doc, err = json.Marshal(rec.Updates); err != nil {
			return ack, model.Errorf(model.CodeInvalid, "an update cannot be stored: %v", err)
		}
	}
	l.apply(rec)
	g.of(l).add(rec, l.position(rec.Writer, rec.Doc), &l.Writers[rec.WriterPlace])
	if b.First > 0 {
		e.leases.own(b.Writer, b.Run)
	}
	return model.Ack{Mark: b.Last, Stored: rec.Points(), Refused: refused}, nil
}
