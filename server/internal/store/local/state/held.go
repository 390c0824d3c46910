package state

import (
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
)

// This file is what is asked of a run that is held, to decide about a record.

// Lock locks a run for writing, without its body; Hold locks it with its body.
func (r *Run) Lock() { r.mu.Lock() }

// Unlock ends Lock and Hold.
func (r *Run) Unlock() { r.mu.Unlock() }

// ExpectRecord makes the run one that upkeep looks at, before its record is in the
// log, see dirtyRuns.each.
func (r *Run) ExpectRecord() {
	if r.firstLSN == 0 {
		r.table.dirty.add(r)
	}
}

// HasAttempt reports whether an attempt is known.
func (r *Run) HasAttempt(number uint32) bool { return r.attempt(number) != nil }

// KnowsAttempt reports whether an attempt says nothing new.
func (r *Run) KnowsAttempt(a model.Attempt) bool {
	old := r.attempt(a.Number)
	return old != nil && (a.ResumeFrom == nil || old.ResumeFrom != nil && *old.ResumeFrom <= *a.ResumeFrom)
}

// KnowsWriter reports whether a writer is known with its attempt and logger.
func (r *Run) KnowsWriter(w model.WriterID, attempt uint32, logger *uint64) bool {
	at, ok := r.placeOf(w)
	return ok && r.writers[at].Attempt == attempt && equal(r.writers[at].Logger, logger)
}

func equal(a, b *uint64) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

// WritersMade is how many places of writers are taken.
func (r *Run) WritersMade() uint32 { return uint32(len(r.writers)) }

// Gone reports whether the run is deleted.
func (r *Run) Gone() bool { return r.deleted }

// Named finds a series by its key.
func (r *Run) Named(text string) (*Series, bool) {
	id, ok := r.names.find(r.table.seed, r.series, text)
	if !ok {
		return nil, false
	}
	return r.series[id], true
}

// Start is where relative steps start, once that is fixed.
func (r *Run) Start(key record.StartKey) (int64, bool) {
	at, ok := r.starts[key]
	return at, ok
}

// NextStep is the step at which the curve of a series goes on.
func (r *Run) NextStep(key record.StartKey) int64 {
	s := r.series[key.Series]
	if s.live == nil && !s.stored {
		return 0
	}
	r.load(true)
	return r.view(s).NextStep(key)
}

// NextSeries is the place that the next new series gets.
func (r *Run) NextSeries() uint32 { return uint32(len(r.series)) }

// SeriesMade is how many series there are.
func (r *Run) SeriesMade() int { return r.names.count }

// Arrivals is the arrival number of the next row.
func (r *Run) Arrivals() int64 { return r.nextOrd }
