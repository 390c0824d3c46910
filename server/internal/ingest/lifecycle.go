package ingest

import (
	"context"
	"sync"
	"time"

	"github.com/kymogram/kymogram/internal/model"
)

// How often the background looks; each is well inside what depends on it
// (writers' 10 minutes, the trash's 7 days).
const (
	seenEvery  = 10 * time.Second
	trashEvery = time.Hour
)

// seen collects signs of life between two writes to the catalog.
type seen struct {
	mu sync.Mutex
	at map[model.WriterID]time.Time
}

func (s *seen) record(w model.WriterID, at time.Time) {
	s.mu.Lock()
	s.at[w] = at
	s.mu.Unlock()
}

func (s *seen) take() map[model.WriterID]time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.at
	s.at = make(map[model.WriterID]time.Time, len(out))
	return out
}

// giveBack puts signs back that were not written: the next write has them.
func (s *seen) giveBack(batch map[model.WriterID]time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w, at := range batch {
		if at.After(s.at[w]) {
			s.at[w] = at
		}
	}
}

// Run does the work in the background until ctx ends: the catalog's lost runs, signs of life, silent
// writers, updates that wait for the catalog, and the trash. What fails is tried
// again at the next tick.
func (s *Service) Run(ctx context.Context) error {
	started := s.deps.Now()
	tick := time.NewTicker(seenEvery)
	defer tick.Stop()
	var emptied, retained, tookOver time.Time
	for {
		s.warn("compare the catalog with the store", s.compare(ctx))
		now := s.deps.Now()
		unseen := s.flushSeen(ctx)
		s.warn("record last activity", unseen)
		s.retryStuck(ctx)
		if now.Sub(tookOver) >= leftEvery {
			tookOver = now
			s.warn("take over updates", s.takeOver(ctx))
		}
		if now.Sub(started) >= s.cfg.Silence && unseen == nil {
			// Not earlier: while the server was down nobody could show life, nor while the
			// catalog took no signs of it.
			s.warn("expire silent writers", s.expire(ctx, now.Add(-s.cfg.Silence)))
		}
		if now.Sub(emptied) >= trashEvery {
			emptied = now
			s.warn("empty the trash", s.emptyTrash(ctx, now))
			s.warn("delete artifacts that were never committed", s.expireArtifacts(ctx, now))
			s.warn("delete blobs that no run names", s.sweep(ctx, now))
		}
		if now.Sub(retained) >= retainEvery {
			retained = now
			s.warn("keep to the retention", s.retain(ctx, now))
		}
		select {
		case <-ctx.Done():
			s.warn("record last activity", s.flushSeen(context.WithoutCancel(ctx)))
			return nil
		case <-tick.C:
		}
	}
}

func (s *Service) warn(act string, err error) {
	if err != nil {
		s.deps.Log.Warn("cannot "+act+"; tried again later", "err", err)
	}
}

func (s *Service) flushSeen(ctx context.Context) error {
	batch := s.seen.take()
	if len(batch) == 0 {
		return nil
	}
	revived, err := s.deps.Catalog.Seen(ctx, batch)
	if err != nil {
		s.seen.giveBack(batch)
	}
	s.publishAll(revived)
	return err
}

func (s *Service) expire(ctx context.Context, before time.Time) error {
	lost, err := s.deps.Catalog.Expire(ctx, before)
	s.publishAll(lost)
	return err
}

// publishAll tells readers of runs whose status changed without a batch.
func (s *Service) publishAll(changes []model.RunChange) {
	for _, c := range changes {
		s.deps.Live.Publish(c)
	}
}

func (s *Service) retryStuck(ctx context.Context) {
	for _, id := range s.runs.stuck() {
		run := s.runs.acquire(id)
		err := s.drain(ctx, run)
		s.warn("apply updates", err)
		s.runs.release(run)
		if ctx.Err() != nil || model.CodeOf(err) == model.CodeUnavailable { // the catalog is away, which takes time to tell
			return
		}
	}
}

// emptyTrash purges the runs whose time in the trash is over.
func (s *Service) emptyTrash(ctx context.Context, now time.Time) error {
	due, err := s.deps.Catalog.TrashedBefore(ctx, now.Add(-s.cfg.Trash))
	if err != nil {
		return err
	}
	for _, id := range due {
		if err := s.purge(ctx, id); err != nil {
			return err
		}
	}
	return nil
}
