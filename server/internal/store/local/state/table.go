package state

import (
	"cmp"
	"context"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local/curve"
	"github.com/kymogram/kymogram/server/internal/store/local/segment"
)

// Limits say when a run is flushed, see [local.Config].
type Limits struct {
	FlushRows, FlushBytes int
	FlushAge              time.Duration
	MemoryBytes           int
}

// Table is the runs of a store and what they share.
type Table struct {
	limits  Limits
	now     func() time.Time
	damage  *segment.DamageList
	Setting curve.Setting // of views

	mu     sync.RWMutex // guards runs and owners
	runs   map[model.RunID]*Run
	owners map[model.WriterID]*Run // of writers with marks

	totals   totals
	dirty    dirtyRuns
	seed     maphash.Seed  // of shapes
	deleted  atomic.Uint64 // counts deletions, for what is dead in segments
	memory   atomic.Int64  // bytes of all runs that no segment has
	resident atomic.Int64  // bytes of what is loaded: bodies, and groups of segments
	heads    atomic.Int64  // bytes of what is always there of runs
	asleep   body          // of runs that have none
	calm     unflushed     // of runs of which segments have all
	dueBytes atomic.Int64  // in memory, of the runs that are due
}

// NewTable is a table of no runs.
func NewTable(limits Limits, now func() time.Time, damage *segment.DamageList) *Table {
	t := &Table{limits: limits, now: now, damage: damage, seed: maphash.MakeSeed(), runs: map[model.RunID]*Run{}, owners: map[model.WriterID]*Run{}}
	t.asleep.unflushed = &t.calm
	t.asleep.kept.Close()
	t.Setting = curve.Setting{Limits: curve.DefaultLimits(), Damaged: damage.Report}
	return t
}

// Run finds a run, nil when it is not known.
func (t *Table) Run(id model.RunID) *Run {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.runs[id]
}

// Ensure finds or makes a run.
func (t *Table) Ensure(id model.RunID) *Run {
	if r := t.Run(id); r != nil {
		return r
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.runs[id]
	if r == nil {
		r = t.newRun(id)
		t.runs[id] = r
	}
	return r
}

// Own binds a writer to its run; false when it belongs to another.
func (t *Table) Own(w model.WriterID, r *Run) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old := t.owners[w]; old != nil {
		return old == r
	}
	t.owners[w] = r
	return true
}

// Owner is the run of a writer that has a mark, nil when there is none.
func (t *Table) Owner(w model.WriterID) *Run {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.owners[w]
}

// All lists the runs, in no order.
func (t *Table) All() []*Run {
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := make([]*Run, 0, len(t.runs))
	for _, r := range t.runs {
		out = append(out, r)
	}
	return out
}

// Adopt finds the run of each writer that has a mark.
func (t *Table) Adopt() {
	for _, r := range t.runs {
		for i := range r.writers {
			if r.writers[i].Mark > 0 {
				t.owners[r.writers[i].ID] = r
			}
		}
	}
}

// IsDeleted is false for a run that is not known.
func (t *Table) IsDeleted(id model.RunID) bool {
	r := t.Run(id)
	return r != nil && r.isDeleted()
}

// Pinning lists the runs that need a log file whose successor starts at lsn.
func (t *Table) Pinning(lsn uint64) (out []*Run) {
	t.dirty.each(func(r *Run) {
		if r.firstLSN > 0 && r.firstLSN < lsn {
			out = append(out, r)
		}
	})
	return out
}

// Due lists the runs that should be flushed now.
func (t *Table) Due() []*Run {
	type weighed struct {
		run   *Run
		bytes int
	}
	var out []*Run
	var rest []weighed
	total := 0
	now := t.now()
	t.dirty.each(func(r *Run) {
		old := r.firstLSN > 0 && now.UnixNano()-r.memSince >= int64(t.limits.FlushAge)
		due := r.memRows >= t.limits.FlushRows || r.memBytes >= t.limits.FlushBytes || old
		total += r.memBytes
		bytes := r.memBytes
		if due {
			out = append(out, r)
			total -= bytes
		} else {
			rest = append(rest, weighed{r, bytes})
		}
	})
	slices.SortFunc(rest, func(a, b weighed) int { return cmp.Compare(b.bytes, a.bytes) })
	for i := 0; i < len(rest) && int64(total) > t.room(); i++ {
		out = append(out, rest[i].run)
		total -= rest[i].bytes
	}
	return out
}

// Oldest is the first record that no segment covers, at most lsn.
func (t *Table) Oldest(lsn uint64) uint64 {
	t.dirty.each(func(r *Run) {
		for _, first := range []uint64{r.firstLSN, r.frozenFirst} {
			if first > 0 {
				lsn = min(lsn, first)
			}
		}
	})
	return lsn
}

// forgetDeleted drops the points of runs that a segment says are deleted.
func (t *Table) forgetDeleted() {
	for _, r := range t.runs {
		if r.deleted {
			r.wipe()
			t.deleted.Add(1)
		}
	}
}

// Count adds up what the runs hold.
func (t *Table) Count() (out store.Stats) {
	for _, r := range t.All() {
		r.mu.RLock()
		if !r.deleted {
			out.Runs++
			out.Series += r.seriesCount()
			out.Points += r.stored
		}
		r.mu.RUnlock()
	}
	return out
}

// View finds a series and takes a view of it.
func (t *Table) View(run model.RunID, id store.SeriesID) (*curve.View, error) {
	r, err := t.readable(run)
	if err != nil {
		return nil, err
	}
	r.share()
	defer r.mu.RUnlock()
	if !r.known() {
		return nil, notFound(run)
	}
	s := r.Find(id)
	if s == nil {
		return nil, model.Errorf(model.CodeNotFound, "run %s has no series %d", run, id)
	}
	return r.view(s), nil
}

func (t *Table) readable(id model.RunID) (*Run, error) {
	if r := t.Run(id); r != nil {
		return r, nil
	}
	return nil, notFound(id)
}

func notFound(run model.RunID) error {
	return model.Errorf(model.CodeNotFound, "run %s is not known to the store", run)
}

// CatchUp takes in what the log had at start, run by run, before anyone asks.
func (t *Table) CatchUp(ctx context.Context) {
	for _, r := range t.Late() {
		if ctx.Err() != nil {
			return
		}
		r.Hold()
		r.mu.Unlock()
	}
}

// Late lists the runs that have records of the log which are not taken in yet.
func (t *Table) Late() []*Run {
	return slices.DeleteFunc(t.dirty.all(), func(r *Run) bool {
		r.mu.RLock()
		defer r.mu.RUnlock()
		return len(r.late) == 0
	})
}

// Forget drops the bodies that nobody used for a while, and the groups that nobody
// read. Reads that began before keep what they hold.
func (t *Table) Forget(now time.Time) {
	since := now.Add(-idleAfter).UnixNano()
	for _, r := range t.All() {
		r.mu.RLock()
		old := r.idle(since) || r.unread(since)
		r.mu.RUnlock()
		if old {
			r.drop(since)
		}
	}
}

// drop forgets what was not used since.
func (r *Run) drop(since int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.idle(since):
		r.forget()
	case r.unread(since):
		r.dropGroups()
	}
}

// Deletions counts the runs that were deleted.
func (t *Table) Deletions() uint64 { return t.deleted.Load() }

// Unflushed lists the runs that may have records that no segment covers.
func (t *Table) Unflushed() []*Run { return t.dirty.all() }
