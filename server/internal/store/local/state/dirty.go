package state

import "sync"

// dirtyRuns are the runs that have, or may be about to have, records that no
// segment covers: upkeep looks at these alone.
type dirtyRuns struct {
	mu   sync.Mutex
	runs map[*Run]struct{}
}

func (d *dirtyRuns) add(r *Run) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.runs == nil {
		d.runs = map[*Run]struct{}{}
	}
	d.runs[r] = struct{}{}
}

func (d *dirtyRuns) all() []*Run {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]*Run, 0, len(d.runs))
	for r := range d.runs {
		out = append(out, r)
	}
	return out
}

// each calls f for every dirty run, locked for reading, and drops those that
// are clean. A record in work holds the run's lock from before its entry here
// until it is applied, so none is missed.
func (d *dirtyRuns) each(f func(*Run)) {
	for _, r := range d.all() {
		r.mu.RLock()
		if r.firstLSN == 0 && r.frozenFirst == 0 {
			d.mu.Lock()
			delete(d.runs, r)
			d.mu.Unlock()
		} else {
			f(r)
		}
		r.mu.RUnlock()
	}
}
