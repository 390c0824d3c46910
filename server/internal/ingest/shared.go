package ingest

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/kymogram/kymogram/server/internal/store"
)

// Several servers may write to one store. Each applies to the catalog the updates that it stored.
// The catalog passes over updates that come behind later ones of their run:
//
//	LSN of the run       5            9
//	stored by            A, killed    B, which has the run now
//	in the catalog                    must not come first: 5 would never be applied
//
// So before its own a server applies what others stored of the run and the catalog lacks. Who
// applies an update twice, or at the same time as its owner, changes nothing.

const (
	// leftEvery is how often updates of servers that are gone are looked for.
	leftEvery = time.Minute
	// all is above every LSN.
	all = math.MaxInt64
)

// catchUp applies the updates of a run below an LSN that other servers stored. The caller holds
// the run's mu.
func (s *Service) catchUp(ctx context.Context, r *runState, before uint64) error {
	if s.deps.Shared == nil {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	earlier, err := s.deps.Shared.EarlierMeta(ctx, r.id, r.applied, before)
	for i := range earlier {
		if err := s.applyOne(ctx, &earlier[i]); err != nil {
			return err
		}
		r.applied = earlier[i].LSN
	}
	return err
}

// settle brings the catalog up to what is stored of a run.
func (s *Service) settle(ctx context.Context, r *runState) error {
	if s.deps.Shared == nil {
		return s.drain(ctx, r)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := s.drainLocked(ctx, r); err != nil {
		return err
	}
	return s.catchUp(ctx, r, all)
}

// applyLeft applies updates that an earlier life of this server left, or a server that is gone.
func (s *Service) applyLeft(ctx context.Context, m *store.Meta) error {
	if s.deps.Shared == nil {
		return s.applyOne(ctx, m)
	}
	r := s.runs.acquire(m.Run)
	defer s.runs.release(r)
	r.mu.Lock()
	defer r.mu.Unlock()
	return s.catchUp(ctx, r, m.LSN+1) // it is among them
}

// takeOver applies the updates of servers that are gone.
func (s *Service) takeOver(ctx context.Context) error {
	if s.deps.Shared == nil {
		return nil
	}
	for {
		left, err := s.deps.Shared.LeftMeta(ctx)
		if err != nil || len(left) == 0 {
			return err
		}
		var done []uint64
		for i := range left {
			if err = s.applyLeft(ctx, &left[i]); err != nil {
				break
			}
			done = append(done, left[i].LSN)
		}
		s.deps.Log.Info("took over updates of a server that is gone", "batches", len(done))
		if err := errors.Join(err, s.deps.Shared.ForgetMeta(context.WithoutCancel(ctx), done)); err != nil {
			return err
		}
	}
}
