package ingest

import (
	"context"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
)

// Append stores a batch of the session's writer; run, writer and attempt are the
// session's, whatever the batch says. The batch is the caller's again when
// Append returns, but its records may have been taken out.
//
// Faults of single records refuse those records for good and are named in the
// ack. Faults of the batch as a whole are an error with CodeInvalid and store
// nothing. With CodeGap the ack carries the mark.
func (s *Session) Append(ctx context.Context, b *model.Batch) (model.Ack, error) {
	if err := s.admit(ctx); err != nil {
		return model.Ack{}, err
	}
	b.Run, b.Writer, b.Attempt = s.run.id, s.writer, s.attempt
	for i := range b.Updates {
		if u := &b.Updates[i]; u.Op == model.OpSetAttribute && u.Path == model.ThisAttempt {
			u.Path = model.AttemptPath(s.attempt)
		}
	}
	ack, err := s.service.append(ctx, s.run, s.owner, b)
	if err != nil {
		s.service.counters.failed.Add(1)
		return ack, err
	}
	ack.Shared = s.shared()
	s.service.seen.record(s.writer, s.service.deps.Now())
	s.service.publish(s.run.id, s.workspace, s.project)
	return ack, nil
}

func (s *Service) append(ctx context.Context, run *runState, by *owner, b *model.Batch) (model.Ack, error) {
	if err := checkStructure(b); err != nil {
		return model.Ack{}, err
	}
	verdict := judge(b, run.deleted.Load())
	verdict.apply(b)
	shared := run.owners.claim(by, b)
	for i := range shared {
		b.Updates = append(b.Updates, shared[i].update())
	}
	ack, err := s.store(ctx, run, b)
	if err != nil {
		return ack, err
	}
	if ack.LSN != 0 { // else a repeat, whose updates are not stored
		s.counters.shared.Add(run.owners.settle(shared))
	}
	if b.First > 0 {
		// Our own count of refused points is no record that a client knows.
		ack.Refused = slices.DeleteFunc(ack.Refused, func(r model.Refusal) bool { return r.Seq == 0 })
	}
	ack.Refused = short(append(ack.Refused, verdict.refusals()...))
	s.count(b, &ack, verdict)
	return ack, nil
}

// short leaves the first refusals their texts.
func short(list []model.Refusal) []model.Refusal {
	for i := maxReasons; i < len(list); i++ {
		list[i].Message = ""
	}
	return list
}

func (s *Service) count(b *model.Batch, ack *model.Ack, v *verdict) {
	c := &s.counters
	c.batches.Add(1)
	c.points.Add(ack.Stored)
	if ack.LSN == 0 {
		return // a repeat: counted the first time
	}
	c.refused.Add(v.points + uint64(b.Points()) - min(ack.Stored, uint64(b.Points())))
	for i := range b.Updates {
		if b.Updates[i].Op == model.OpDropped {
			c.dropped.Add(b.Updates[i].Count)
		}
	}
}

// store makes a batch durable: in the store, then its updates in the catalog.
func (s *Service) store(ctx context.Context, run *runState, b *model.Batch) (model.Ack, error) {
	if len(b.Updates) == 0 {
		// The ack covers everything up to its mark, so also earlier updates.
		if err := s.drain(ctx, run); err != nil {
			return model.Ack{}, err
		}
		return s.deps.Points.Append(ctx, b)
	}
	run.mu.Lock()
	defer run.mu.Unlock()
	if err := s.drainLocked(ctx, run); err != nil {
		return model.Ack{}, err
	}
	ticket := s.releases.begin()
	// Not to be cancelled: whether it was stored must be known.
	ack, err := s.deps.Points.Append(context.WithoutCancel(ctx), b)
	if err != nil || ack.LSN == 0 {
		s.releases.done(ticket)
		return ack, err
	}
	s.releases.stored(ticket, ack.LSN)
	run.pending = append(run.pending, pendingUpdates{
		Meta:   store.Meta{LSN: ack.LSN, Run: b.Run, Writer: b.Writer, Updates: slices.Clone(b.Updates)},
		ticket: ticket,
	})
	return ack, s.drainLocked(ctx, run)
}
