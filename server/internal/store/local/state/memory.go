package state

import (
	"cmp"
	"slices"
)

// All that a table holds counts: rows, series and starts that no segment has
// (memory), what is loaded of runs in use (resident), and what is always there of
// every run (heads). The first is flushed, the second forgotten, least recently used
// first. What is left then is of runs that are written to: a record that would add to
// it is refused, and its writer keeps it. Heads stay; at three quarters of the limit
// there are no new runs and writers, so that those there are can go on.

const (
	// flushesPerRun is how many times FlushBytes a run may hold in memory.
	flushesPerRun = 8
	// maxUnflushed bounds what a crash leaves to be read from the log.
	maxUnflushed = 256 << 20
)

// room is how much may be in no segment: a quarter of the limit at least, else a
// large run that is loaded would make every record a flush.
func (t *Table) room() int64 {
	limit := t.limit()
	return min(maxUnflushed, max(limit/4, limit-t.resident.Load()))
}

// limit is what heads leave of the memory.
func (t *Table) limit() int64 {
	all := int64(t.limits.MemoryBytes)
	return max(all/4, all-t.heads.Load())
}

// Crowded reports whether there may be no more runs and writers.
func (t *Table) Crowded() bool { return t.heads.Load() >= int64(t.limits.MemoryBytes)/4*3 }

// Full reports whether a run, or all together, hold as much as they may.
func (r *Run) Full() bool {
	if room := r.table.room(); r.table.Short() || r.table.memory.Load() >= room+room/4 {
		return true
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.memBytes+r.frozenBytes >= flushesPerRun*r.table.limits.FlushBytes
}

// Short reports whether what is loaded alone takes all memory.
func (t *Table) Short() bool { return t.resident.Load() >= t.limit() }

// Relieve forgets what is loaded until a quarter of the memory is free: first groups
// that only reads need, then bodies, those of a run excepted.
func (t *Table) Relieve(keep *Run) {
	runs := t.All()
	t.relieve(runs, func(r *Run) int64 { return r.read.Load() }, func(r *Run) {
		if r.grouped && !r.deleted {
			r.dropGroups()
		}
	})
	t.relieve(runs, func(r *Run) int64 { return r.used.Load() }, func(r *Run) {
		if r != keep && r.clean() {
			r.forget()
		}
	})
}

// relieve drops something of runs, beginning with the one of which it was used least
// recently.
func (t *Table) relieve(runs []*Run, used func(*Run) int64, drop func(*Run)) {
	at := make(map[*Run]int64, len(runs))
	for _, r := range runs {
		at[r] = used(r)
	}
	slices.SortFunc(runs, func(a, b *Run) int { return cmp.Compare(at[a], at[b]) })
	for _, r := range runs {
		if t.resident.Load() < t.limit()/4*3 {
			return
		}
		r.mu.Lock()
		drop(r)
		r.mu.Unlock()
	}
}

// Held is what a table holds, in bytes.
func (t *Table) Held() int64 { return t.memory.Load() + t.resident.Load() + t.heads.Load() }

// Full reports whether the runs that are due make a flush of so many bytes, or all
// runs together hold as much as they should.
func (t *Table) Full(flushBytes int64) bool {
	return t.dueBytes.Load() >= flushBytes || t.memory.Load() >= t.room() || t.Short()
}

// CountDue notes that a run has become due. The caller holds the run's lock.
func (r *Run) CountDue() {
	if r.dueBytes == 0 && (r.memBytes >= r.table.limits.FlushBytes || r.memRows >= r.table.limits.FlushRows) {
		r.dueBytes = r.memBytes
		r.table.dueBytes.Add(int64(r.memBytes))
	}
}
