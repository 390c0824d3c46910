package ingest

import (
	"context"
	"sync"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

// comparison gives the catalog the runs that only the engine knows, once after
// the start: SQLite drops transactions behind a flaw in its log silently.
//
//	runs in the store     A  B  C  D
//	runs in the catalog   A  B     D     C is put into recovered/recovered
//
// Only ids, attempts and writers of C are known. An open by one of its writers, or
// with its id as the local one, moves it to the place that this open names. So the
// comparison comes before the first open and before the first update is applied:
// both would otherwise miss C.
type comparison struct {
	mu   sync.Mutex
	done bool
}

// maxNamed is how many recovered runs the log names.
const maxNamed = 20

// Recover applies the updates that were durable in the store when the process
// ended and not yet in the catalog. It comes before the first Open.
func (s *Service) Recover(ctx context.Context) error {
	var last uint64
	for m, err := range s.deps.Updates.PendingMeta(ctx) {
		if err != nil {
			return err
		}
		if last == 0 {
			// Now, since the catalog passes over updates of a run that it lacks.
			s.warn("compare the catalog with the store", s.compare(ctx))
		}
		if err := s.applyLeft(ctx, &m); err != nil {
			return err
		}
		last = max(last, m.LSN)
	}
	if last > 0 {
		s.releases.done(s.releasesTo(last))
	}
	return nil
}

func (s *Service) releasesTo(lsn uint64) uint64 {
	ticket := s.releases.begin()
	s.releases.stored(ticket, lsn)
	return ticket
}

// compare is the background's, or the first open's when that comes earlier: an
// open that overtook it would make a second run of a writer that is not lost.
func (s *Service) compare(ctx context.Context) error {
	s.compared.mu.Lock()
	defer s.compared.mu.Unlock()
	if s.compared.done || s.deps.Roster == nil {
		return nil
	}
	back, err := s.deps.Catalog.Recover(ctx, s.deps.Roster.Runs(ctx), s.deps.Now())
	s.tell(back)
	s.compared.done = err == nil && ctx.Err() == nil
	return err
}

func (s *Service) tell(back []model.RunID) {
	for i, id := range back {
		if i < maxNamed {
			s.deps.Log.Error("the catalog had lost a run; its points are in the store", "run", id, "workspace", catalog.Recovered, "project", catalog.Recovered)
		}
		s.publish(id, catalog.Recovered, catalog.Recovered)
	}
	if len(back) > maxNamed {
		s.deps.Log.Error("the catalog had lost more runs", "runs", len(back), "named", maxNamed)
	}
}
