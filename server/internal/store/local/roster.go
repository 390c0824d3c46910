package local

import (
	"context"
	"iter"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
)

// Runs implements [store.Roster].
func (e *Engine) Runs(ctx context.Context) iter.Seq[model.KeptRun] {
	return func(yield func(model.KeptRun) bool) {
		for _, r := range e.allRuns() {
			kept, ok := r.kept()
			if ctx.Err() != nil || ok && !yield(kept) {
				return
			}
		}
	}
}

// kept is false for a run that is deleted or that nothing made known yet.
func (r *run) kept() (model.KeptRun, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.deleted || len(r.attempts)+len(r.writers)+int(r.made) == 0 {
		return model.KeptRun{}, false
	}
	k := model.KeptRun{ID: r.id, Attempts: slices.Clone(r.attempts)}
	for i := range r.writers {
		w := &r.writers[i]
		if !w.ID.IsZero() { // an empty place: its record was lost to damage
			k.Writers = append(k.Writers, model.KeptWriter{ID: w.ID, Attempt: w.Attempt, LoggerID: w.Logger})
		}
	}
	return k, true
}
