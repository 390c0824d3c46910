package local

import (
	"log/slog"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
)

// view is a series as it was when a read began; reading it takes no lock.
type view struct {
	engine  *Engine
	run     model.RunID
	series  *series
	kind    model.Kind
	mask    column.AxisSet
	version uint64
	epoch   uint64
	lineage *lineage
	layout  uint64
	// chunks in segments, then those in memory; not to be written to.
	chunks     []column.Chunk
	inSegments int
}

// viewOf takes a view; the caller holds the run's lock, for reading at least.
func (e *Engine) viewOf(r *run, s *series) *view {
	v := &view{engine: e, run: r.id, series: s, kind: s.kind, mask: s.mask, version: s.version, epoch: r.epoch, lineage: r.lines()}
	v.layout, v.inSegments = s.layout, len(s.chunks)
	v.chunks = slices.Clip(s.chunks) // copied when something is added
	for _, m := range s.mem {
		v.chunks = append(v.chunks, m.group.viewColumn(m.col))
	}
	return v
}

// seriesView finds a series and takes a view of it.
func (e *Engine) seriesView(run model.RunID, id store.SeriesID) (*view, error) {
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
	return e.viewOf(r, s), nil
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

// damaged counts what could not be read; the rest is served.
func (v *view) damaged(err error) {
	v.engine.damage.Report(v.run, "row group", err, slog.String("series", v.series.text))
}

// read loads what a piece lacks; false when it is damaged.
func (v *view) read(p *piece) (*column.Rows, column.Values, bool) {
	r := p.rows
	if r == nil {
		var err error
		if r, err = p.Group.Rows(); err != nil {
			v.damaged(err)
			return nil, column.Values{}, false
		}
		p.rows = r
	}
	vals, err := p.Group.Values(p.Col)
	if err != nil {
		v.damaged(err)
		return nil, column.Values{}, false
	}
	return r, vals, true
}
