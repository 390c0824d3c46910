package local

import (
	"context"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
)

// commit writes a record while the run is locked and applies it, so that the
// order in the log is the order in memory. It is durable after e.wait.
func (e *Engine) commit(r *run, enc *record.Encoder, apply func(lsn uint64) error) (uint64, error) {
	if err := e.files.Stuck(); err != nil {
		return 0, record.Refusing(err)
	}
	if r.firstLSN == 0 {
		e.dirty.add(r) // before the record is there, see dirtyRuns.each
	}
	lsn, err := e.log.Append(enc)
	if err != nil {
		return 0, err
	}
	return lsn, apply(lsn)
}

// PutAttempt implements [store.Writer].
func (e *Engine) PutAttempt(ctx context.Context, id model.RunID, a model.Attempt) error {
	if a.Number == 0 {
		return model.Errorf(model.CodeInvalid, "attempts are numbered from 1")
	}
	r := e.ensure(id)
	lsn, err := e.putAttempt(r, a)
	if err != nil {
		return err
	}
	return e.log.Wait(ctx, lsn)
}

func (e *Engine) putAttempt(r *run, a model.Attempt) (uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.deleted {
		return 0, model.Errorf(model.CodeRunDeleted, "run %s is deleted", r.id)
	}
	if old := r.attempt(a.Number); old != nil && (a.ResumeFrom == nil || old.ResumeFrom != nil && *old.ResumeFrom <= *a.ResumeFrom) {
		return r.lastLSN, nil // what is known may still be on its way to the disk
	}
	if a.ResumeFrom != nil {
		s := *a.ResumeFrom
		a.ResumeFrom = &s
	}
	enc := &record.Encoder{}
	enc.Attempt(r.id, a)
	return e.commit(r, enc, func(lsn uint64) error { e.applyAttempt(r, a, lsn); return nil })
}

// PutWriter implements [store.Writer].
func (e *Engine) PutWriter(ctx context.Context, id model.RunID, w model.WriterID, attempt uint32, loggerID *uint64) error {
	if w.IsZero() {
		return model.Errorf(model.CodeInvalid, "a writer needs an id")
	}
	r := e.run(id)
	if r == nil {
		return unknownAttempt(id, attempt)
	}
	lsn, err := e.putWriter(r, w, attempt, loggerID)
	if err != nil {
		return err
	}
	return e.log.Wait(ctx, lsn)
}

func (e *Engine) putWriter(r *run, w model.WriterID, attempt uint32, loggerID *uint64) (uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.deleted {
		return 0, model.Errorf(model.CodeRunDeleted, "run %s is deleted", r.id)
	}
	if r.attempt(attempt) == nil {
		return 0, unknownAttempt(r.id, attempt)
	}
	if at, ok := r.writerAt[w]; ok && r.writers[at].Attempt == attempt && equal(r.writers[at].Logger, loggerID) {
		return r.lastLSN, nil
	}
	if loggerID != nil {
		n := *loggerID
		loggerID = &n
	}
	place := r.nextWriter(w)
	enc := &record.Encoder{}
	enc.Writer(r.id, place, w, attempt, loggerID)
	return e.commit(r, enc, func(lsn uint64) error { return e.applyWriter(r, place, w, attempt, loggerID, lsn) })
}

func equal(a, b *uint64) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

func unknownAttempt(run model.RunID, n uint32) error {
	return model.Errorf(model.CodeNotFound, "run %s has no attempt %d", run, n).WithHint("open the run before sending points")
}

// DeleteRun implements [store.Writer].
func (e *Engine) DeleteRun(ctx context.Context, id model.RunID) error {
	r := e.ensure(id)
	lsn, err := e.deleteRun(r)
	if err != nil {
		return err
	}
	return e.log.Wait(ctx, lsn)
}

func (e *Engine) deleteRun(r *run) (uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.deleted {
		return r.lastLSN, nil
	}
	enc := &record.Encoder{}
	enc.Delete(r.id)
	return e.commit(r, enc, func(lsn uint64) error { e.applyDelete(r, lsn); return nil })
}

// Mark implements [store.Writer].
func (e *Engine) Mark(ctx context.Context, w model.WriterID) (uint64, error) {
	r := e.owner(w)
	if r == nil {
		return 0, nil
	}
	mark, lsn := r.mark(w)
	return mark, e.log.Wait(ctx, lsn)
}

// mark is a writer's mark and the record that set it.
func (r *run) mark(w model.WriterID) (mark, lsn uint64) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if at, ok := r.writerAt[w]; ok {
		return r.writers[at].Mark, r.writers[at].LSN
	}
	return 0, 0
}

// Append implements [store.Writer].
func (e *Engine) Append(ctx context.Context, b *model.Batch) (model.Ack, error) {
	if err := check(b); err != nil {
		return model.Ack{}, err
	}
	r := e.run(b.Run)
	if r == nil {
		return model.Ack{}, unknownAttempt(b.Run, b.Attempt)
	}
	if b.First > 0 && !e.own(b.Writer, r) {
		return model.Ack{}, model.Errorf(model.CodeConflict, "writer %s belongs to another run", b.Writer)
	}
	if err := e.room(ctx, r); err != nil {
		return model.Ack{}, err
	}
	ack, lsn, err := e.append(r, b)
	if lsn > 0 {
		if werr := e.log.Wait(ctx, lsn); werr != nil {
			return model.Ack{}, werr
		}
	}
	e.hint()
	return ack, err
}

// encoder is an empty one with the room of an earlier one.
func (e *Engine) encoder() *record.Encoder {
	if enc, ok := e.encoders.Get().(*record.Encoder); ok && cap(enc.Buf) <= maxKeptBuffer {
		enc.Buf = enc.Buf[:0]
		return enc
	}
	return &record.Encoder{}
}

const maxKeptBuffer = 4 << 20

// append decides, writes and applies a batch; lsn is what the answer waits for.
func (e *Engine) append(r *run, b *model.Batch) (ack model.Ack, lsn uint64, err error) {
	e.hold(r)
	defer r.mu.Unlock()
	if b.First > 0 {
		mark, seen := uint64(0), uint64(0)
		if at, ok := r.writerAt[b.Writer]; ok {
			mark, seen = r.writers[at].Mark, r.writers[at].LSN
		}
		ack.Mark = mark
		if b.Last <= mark {
			return ack, seen, nil
		}
		if b.First != mark+1 {
			return ack, seen, model.Errorf(model.CodeGap, "the next sequence of writer %s is %d, not %d", b.Writer, mark+1, b.First)
		}
	}
	if !r.deleted && r.attempt(b.Attempt) == nil {
		return ack, 0, unknownAttempt(b.Run, b.Attempt)
	}
	rec, refused, err := e.resolve(r, b)
	if err != nil {
		return ack, 0, err
	}
	enc := e.encoder()
	defer e.encoders.Put(enc)
	if err := enc.Batch(rec); err != nil {
		return ack, 0, err
	}
	lsn, err = e.commit(r, enc, func(lsn uint64) error { return e.apply(r, rec, lsn) })
	if err != nil {
		return ack, 0, err
	}
	e.countDue(r)
	if len(rec.Doc) > 0 {
		e.meta.add(metaOf(rec, lsn))
	}
	return model.Ack{Mark: b.Last, Stored: rec.Points(), Refused: refused, LSN: lsn}, lsn, nil
}

// flushBatch is how many bytes of due runs make a flush worth its file, its syncs
// and the merges that follow; fewer wait for the next tick of Run.
const flushBatch = 4 << 20

// countDue notes that a run has become due. The caller holds the run's lock.
func (e *Engine) countDue(r *run) {
	if r.dueBytes == 0 && (r.memBytes >= e.cfg.FlushBytes || r.memRows >= e.cfg.FlushRows) {
		r.dueBytes = r.memBytes
		e.dueBytes.Add(int64(r.memBytes))
	}
}

// hint wakes the background work when a flush is worth it; the tick of Run sees to
// the rest, to age and to the sum over all runs.
func (e *Engine) hint() {
	if e.dueBytes.Load() < flushBatch && e.memory.Load() < int64(e.cfg.MemoryBytes) {
		return
	}
	select {
	case e.work <- struct{}{}:
	default:
	}
}
