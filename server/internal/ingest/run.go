package ingest

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
)

// runState is what the write path keeps of a run while somebody writes to it.
type runState struct {
	id model.RunID
	// deleted: the run is in the trash or purged; its points are refused.
	deleted atomic.Bool
	owners  owners

	// mu orders updates: held from the store's append to the catalog's apply, so
	// that the catalog sees them by rising LSN.
	mu sync.Mutex
	// pending are updates that are durable in the store and not yet in the
	// catalog, by rising LSN. No ack leaves for this run while there are any.
	pending []pendingUpdates
	applied uint64      // the highest LSN that the catalog has, as far as that is known here; see shared.go
	stuck   atomic.Bool // pending is not empty

	refs int // of sessions and calls under way; guarded by runTable.mu
}

type pendingUpdates struct {
	store.Meta
	ticket uint64 // of releases
}

// runTable holds the states in use.
type runTable struct {
	mu   sync.Mutex
	byID map[model.RunID]*runState
}

// acquire returns the state of a run until release.
func (t *runTable) acquire(id model.RunID) *runState {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.byID[id]
	if r == nil {
		r = &runState{id: id}
		t.byID[id] = r
	}
	r.refs++
	return r
}

func (t *runTable) release(r *runState) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.refs--; r.refs == 0 && !r.stuck.Load() {
		delete(t.byID, r.id)
	}
}

// markDeleted tells the sessions of a run. A run that nobody writes to needs no
// mark: its next open looks.
func (t *runTable) markDeleted(id model.RunID, deleted bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.byID[id]; r != nil {
		r.deleted.Store(deleted)
	}
}

// inUse are those of some runs that have a state; nil: all that have one.
func (t *runTable) inUse(some []model.RunID) (ids []model.RunID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if some == nil {
		return slices.Collect(maps.Keys(t.byID))
	}
	return slices.DeleteFunc(slices.Clone(some), func(id model.RunID) bool { return t.byID[id] == nil })
}

// stuck lists the runs whose updates wait for the catalog.
func (t *runTable) stuck() []model.RunID {
	t.mu.Lock()
	defer t.mu.Unlock()
	var ids []model.RunID
	for id, r := range t.byID {
		if r.stuck.Load() {
			ids = append(ids, id)
		}
	}
	return ids
}

// releases knows up to which LSN every update is in the catalog, while appends
// and applies of different runs overlap.
//
// Store and catalog have no transaction in common. The store is first: one record
// of its log holds points, mark and updates. The catalog follows, and the store
// keeps the updates until they are released, for a start after a crash
// ([Service.Recover]). An LSN is a record's place in the log:
//
//	LSN             41   42   43   44
//	in the store    ✓    ✓    ✓    being written, its LSN not yet known
//	in the catalog  ✓         ✓
//	released        ✓              42 is missing, so nothing above 41
//
// The catalog skips what it has applied, so updates may come to it again.
type releases struct {
	mu   sync.Mutex
	log  Updates
	next uint64            // ticket
	open map[uint64]uint64 // ticket → an LSN below the one it will get or has
	top  uint64            // highest LSN seen
}

// begin takes a ticket before an append: its LSN will be above every one seen.
func (r *releases) begin() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next++
	r.open[r.next] = r.top
	return r.next
}

// stored says which LSN the ticket's updates got.
func (r *releases) stored(ticket, lsn uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open[ticket] = lsn - 1
	r.top = max(r.top, lsn)
}

// done says that the ticket's updates are in the catalog, or never were stored.
func (r *releases) done(ticket uint64) {
	r.mu.Lock()
	delete(r.open, ticket)
	safe := r.top
	for _, below := range r.open {
		safe = min(safe, below)
	}
	r.mu.Unlock()
	if safe > 0 {
		r.log.ReleaseMeta(safe)
	}
}

// drain applies a run's pending updates; without an error none is left.
func (s *Service) drain(ctx context.Context, r *runState) error {
	if !r.stuck.Load() {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return s.drainLocked(ctx, r)
}

func (s *Service) drainLocked(ctx context.Context, r *runState) error {
	// What the store has must reach the catalog even when the client is gone.
	ctx = context.WithoutCancel(ctx)
	for len(r.pending) > 0 {
		err := s.catchUp(ctx, r, r.pending[0].LSN)
		if err == nil {
			err = s.applyOne(ctx, &r.pending[0].Meta)
		}
		if err != nil {
			r.stuck.Store(true)
			return err
		}
		r.applied = max(r.applied, r.pending[0].LSN)
		s.releases.done(r.pending[0].ticket)
		r.pending = r.pending[1:]
	}
	r.stuck.Store(false)
	return nil
}

// applyOne applies updates. Those that can never be applied (written by another
// version) are said in the log and passed over, so that the rest goes on.
func (s *Service) applyOne(ctx context.Context, m *store.Meta) error {
	err := s.deps.Catalog.Apply(ctx, m.Run, m.Writer, m.LSN, m.Updates, s.deps.Now())
	if err == nil {
		return nil
	}
	if model.CodeOf(err).Final() {
		s.deps.Log.Error("updates cannot be applied", "run", m.Run, "writer", m.Writer, "lsn", m.LSN, "err", err)
		return nil
	}
	s.deps.Log.Warn("updates wait for the catalog", "run", m.Run, "lsn", m.LSN, "err", err)
	if code := model.CodeOf(err); code != model.CodeInternal {
		return err
	}
	return model.Errorf(model.CodeUnavailable, "the catalog did not take the updates of run %s", m.Run).
		WithHint("They are kept; send the batch again later.")
}
