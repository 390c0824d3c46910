package state

import (
	"slices"

	"github.com/kymogram/kymogram/server/internal/store/local/record"
	"github.com/kymogram/kymogram/server/internal/store/local/segment"
)

// Whole is what is known of a run that nobody used since the start. Its series, starts and points
// are in Places and Late.
type Whole struct {
	record.Run
	Made    uint32 // places of series that are taken
	Sources []record.Source
	Places  []segment.Place
	Late    [][]byte // records of the log that no segment has, in their order
}

// Whole is what a copy of the run needs.
func (r *Run) Whole() Whole {
	r.mu.RLock()
	defer r.mu.RUnlock()
	out := Whole{
		Run:  record.Run{ID: r.ID, Deleted: r.deleted, Arrivals: r.nextOrd, Points: r.stored, Attempts: slices.Clone(r.attempts), Writers: slices.Clone(r.writers)},
		Made: r.made, Sources: slices.Clone(r.sources),
	}
	if r.deleted {
		return out
	}
	out.Places = slices.Clone(r.parts)
	for _, l := range r.late {
		out.Late = append(out.Late, l.payload)
	}
	return out
}
