package local

import (
	"context"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local/decision"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
	"github.com/kymogram/kymogram/server/internal/store/local/state"
)

// PutAttempt implements [store.Engine].
func (e *Engine) PutAttempt(ctx context.Context, id model.RunID, a model.Attempt) error {
	lsn, err := e.writeAttempt(id, a)
	if err != nil {
		return err
	}
	return e.log.Wait(ctx, lsn)
}

// PutOpen implements [store.Writer]. The log is synced in its order: who waits for the writer
// has waited for the attempt.
func (e *Engine) PutOpen(ctx context.Context, id model.RunID, a model.Attempt, w model.WriterID, loggerID *uint64) error {
	first, err := e.writeAttempt(id, a)
	if err != nil {
		return err
	}
	last, err := e.writeWriter(id, w, a.Number, loggerID)
	if err != nil {
		return err
	}
	return e.log.Wait(ctx, max(first, last))
}

// writeAttempt writes an attempt; lsn is what its caller waits for.
func (e *Engine) writeAttempt(id model.RunID, a model.Attempt) (lsn uint64, err error) {
	if a.Number == 0 {
		return 0, model.Errorf(model.CodeInvalid, "attempts are numbered from 1")
	}
	if e.table.Run(id) == nil {
		if err := e.keeper.NewRun(id); err != nil {
			return 0, err
		}
	}
	return e.putAttempt(e.table.Ensure(id), a)
}

func (e *Engine) putAttempt(r *state.Run, a model.Attempt) (uint64, error) {
	r.Lock()
	defer r.Unlock()
	if r.Gone() {
		return 0, model.Errorf(model.CodeRunDeleted, "run %s is deleted", r.ID)
	}
	if r.KnowsAttempt(a) {
		return r.LastLSN, nil // what is known may still be on its way to the disk
	}
	if a.ResumeFrom != nil {
		s := *a.ResumeFrom
		a.ResumeFrom = &s
	}
	enc := &record.Encoder{}
	enc.Attempt(r.ID, a)
	return e.commit(r, enc, func(lsn uint64) error { r.ApplyAttempt(a, lsn); return nil })
}

// PutWriter implements [store.Engine].
func (e *Engine) PutWriter(ctx context.Context, id model.RunID, w model.WriterID, attempt uint32, loggerID *uint64) error {
	lsn, err := e.writeWriter(id, w, attempt, loggerID)
	if err != nil {
		return err
	}
	return e.log.Wait(ctx, lsn)
}

// writeWriter writes a writer; lsn is what its caller waits for.
func (e *Engine) writeWriter(id model.RunID, w model.WriterID, attempt uint32, loggerID *uint64) (lsn uint64, err error) {
	if w.IsZero() {
		return 0, model.Errorf(model.CodeInvalid, "a writer needs an id")
	}
	r := e.table.Run(id)
	if r == nil {
		return 0, unknownAttempt(id, attempt)
	}
	return e.putWriter(r, w, attempt, loggerID)
}

func (e *Engine) putWriter(r *state.Run, w model.WriterID, attempt uint32, loggerID *uint64) (uint64, error) {
	r.Lock()
	defer r.Unlock()
	if r.Gone() {
		return 0, model.Errorf(model.CodeRunDeleted, "run %s is deleted", r.ID)
	}
	if !r.HasAttempt(attempt) {
		return 0, unknownAttempt(r.ID, attempt)
	}
	if r.KnowsWriter(w, attempt, loggerID) {
		return r.LastLSN, nil
	}
	place := r.NextWriter(w)
	if place >= r.WritersMade() {
		if err := e.keeper.NewRun(r.ID); err != nil {
			return 0, err
		}
	}
	if loggerID != nil {
		n := *loggerID
		loggerID = &n
	}
	enc := &record.Encoder{}
	enc.Writer(r.ID, place, w, attempt, loggerID)
	return e.commit(r, enc, func(lsn uint64) error { return r.ApplyWriter(place, w, attempt, loggerID, lsn) })
}

func unknownAttempt(run model.RunID, n uint32) error {
	return model.Errorf(model.CodeNotFound, "run %s has no attempt %d", run, n).WithHint("open the run before sending points")
}

// DeleteRun implements [store.Writer].
func (e *Engine) DeleteRun(ctx context.Context, id model.RunID) error {
	r := e.table.Ensure(id)
	lsn, err := e.deleteRun(r)
	if err != nil {
		return err
	}
	return e.log.Wait(ctx, lsn)
}

func (e *Engine) deleteRun(r *state.Run) (uint64, error) {
	r.Lock()
	defer r.Unlock()
	if r.Gone() {
		return r.LastLSN, nil
	}
	enc := &record.Encoder{}
	enc.Delete(r.ID)
	return e.commit(r, enc, func(lsn uint64) error { r.ApplyDelete(lsn); return nil })
}

// Mark implements [store.Writer].
func (e *Engine) Mark(ctx context.Context, w model.WriterID) (uint64, error) {
	r := e.table.Owner(w)
	if r == nil {
		return 0, nil
	}
	mark, lsn := r.Mark(w)
	return mark, e.log.Wait(ctx, lsn)
}

// desk is room to decide about a batch and to write it down.
type desk struct {
	decision.Desk
	enc record.Encoder
}

// desk is an empty one, with the room of an earlier batch.
func (e *Engine) desk() *desk {
	if d, ok := e.desks.Get().(*desk); ok {
		return d
	}
	return &desk{}
}

// putDesk keeps a desk for another batch.
func (e *Engine) putDesk(d *desk) {
	d.Clear()
	if d.enc.Buf = d.enc.Buf[:0]; cap(d.enc.Buf) > maxKeptBuffer {
		d.enc.Buf = nil
	}
	e.desks.Put(d)
}

const maxKeptBuffer = 4 << 20

// held is a run that is locked with its body, as a decision reads it.
type held struct{ *state.Run }

var _ decision.Run = held{}

// Head implements [decision.Run].
func (h held) Head(w model.WriterID, attempt uint32) decision.Head {
	writer := h.NextWriter(w)
	source := h.NextSource(record.Source{Writer: writer, Attempt: attempt})
	return decision.Head{Gone: h.Gone(), Writer: writer, Source: source, NextSeries: h.NextSeries(), Made: h.SeriesMade(), Arrivals: h.Arrivals()}
}

// Series implements [decision.Run].
func (h held) Series(id store.SeriesID) record.Series { return definition(h.Find(id)) }

// Named implements [decision.Run].
func (h held) Named(text string) record.Series {
	s, _ := h.Run.Named(text)
	return definition(s)
}

func definition(s *state.Series) record.Series {
	if s == nil {
		return record.Series{}
	}
	return record.Series{ID: s.ID, Kind: s.Kind, Text: s.Text}
}
