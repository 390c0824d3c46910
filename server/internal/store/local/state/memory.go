package state

// flushesPerRun is how many times FlushBytes a run may hold in memory.
const flushesPerRun = 8

// Full reports whether a run, or all together, hold as much as they may.
func (r *Run) Full() bool {
	if r.table.memory.Load() >= int64(r.table.limits.MemoryBytes+r.table.limits.MemoryBytes/4) {
		return true
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.memBytes+r.frozenBytes >= flushesPerRun*r.table.limits.FlushBytes
}

// CountDue notes that a run has become due. The caller holds the run's lock.
func (r *Run) CountDue() {
	if r.dueBytes == 0 && (r.memBytes >= r.table.limits.FlushBytes || r.memRows >= r.table.limits.FlushRows) {
		r.dueBytes = r.memBytes
		r.table.dueBytes.Add(int64(r.memBytes))
	}
}
