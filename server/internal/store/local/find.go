package local

import (
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local/curve"
)

// View finds a series and takes a view of it.
func (e *Engine) View(run model.RunID, id store.SeriesID) (*curve.View, error) {
	r, err := e.readable(run)
	if err != nil {
		return nil, err
	}
	e.share(r)
	defer r.mu.RUnlock()
	if !r.known() {
		return nil, notFound(run)
	}
	s := r.find(id)
	if s == nil {
		return nil, model.Errorf(model.CodeNotFound, "run %s has no series %d", run, id)
	}
	return e.viewNow(r, s), nil
}

// known is false for a deleted run and for one that nothing stored made.
func (r *run) known() bool { return !r.deleted && len(r.attempts) > 0 }

func notFound(run model.RunID) error {
	return model.Errorf(model.CodeNotFound, "run %s is not known to the store", run)
}

func (e *Engine) readable(id model.RunID) (*run, error) {
	if r := e.run(id); r != nil {
		return r, nil
	}
	return nil, notFound(id)
}

// viewNow takes a view; the caller holds the run's lock, for reading at least.
func (e *Engine) viewNow(r *run, s *series) *curve.View {
	v := &curve.View{Setting: &e.setting, Run: r.id, Series: &s.Series, Mask: s.mask, Version: s.version, Epoch: r.epoch, Lineage: r.lines()}
	v.Layout, v.InSegments = s.layout, len(s.chunks)
	v.Chunks = slices.Clip(s.chunks) // copied when something is added
	for _, m := range s.mem {
		v.Chunks = append(v.Chunks, m.group.viewColumn(m.col))
	}
	return v
}
