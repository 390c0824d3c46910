package clickhouse

import (
	"context"
	"sync"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/ledger"
)

// leases are the runs that this server holds, as far as it knows.
type leases struct {
	ledger   *ledger.Ledger
	patience time.Duration // with a database that does not answer

	mu    sync.Mutex
	slots map[model.RunID]*slot
	// owners are the runs of writers with sequences.
	owners map[model.WriterID]model.RunID
}

// slot is the place of a lease. Its lock is held while the lease is taken.
type slot struct {
	taking sync.Mutex
	lease  *lease    // guarded by leases.mu
	used   time.Time // so is this
}

func newLeases(l *ledger.Ledger, patience time.Duration) *leases {
	return &leases{ledger: l, patience: patience, slots: map[model.RunID]*slot{}, owners: map[model.WriterID]model.RunID{}}
}

// of is the lease of a run, taken where it is not held; nil for a run that is not known.
func (s *leases) of(ctx context.Context, run model.RunID, create bool) (*lease, error) {
	at, l := s.find(run)
	if l != nil {
		return l, nil
	}
	at.taking.Lock()
	defer at.taking.Unlock()
	if _, l := s.find(run); l != nil {
		return l, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	r, err := s.ledger.Take(ctx, run, create)
	if err != nil || r == nil {
		return nil, err
	}
	l = newLease(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	at.lease, s.slots[run] = l, at
	return l, nil
}

func (s *leases) find(run model.RunID) (*slot, *lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.slots[run]
	if at == nil {
		at = &slot{}
		s.slots[run] = at
	}
	at.used = time.Now()
	return at, at.lease
}

// kept is how many runs are remembered.
func (s *leases) kept() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.slots)
}

// valid reports whether a lease was not dropped.
func (s *leases) valid(l *lease) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.slots[l.ID]
	return at != nil && at.lease == l
}

// drop forgets a lease: what is in it may not be so.
func (s *leases) drop(l *lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := s.slots[l.ID]; at != nil && at.lease == l {
		at.lease = nil
	}
}

// forget drops the leases that nobody used since, and who owns writers. Writes that are on their
// way with such a lease take it again.
func (s *leases) forget(since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for run, at := range s.slots {
		if at.used.Before(since) {
			delete(s.slots, run)
		}
	}
	clear(s.owners)
}

// owner is the run of a writer with sequences, as far as that is known here.
func (s *leases) owner(w model.WriterID) (model.RunID, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	run, ok := s.owners[w]
	return run, ok
}

// own notes the run of a writer.
func (s *leases) own(w model.WriterID, run model.RunID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owners[w] = run
}
