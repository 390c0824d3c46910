package state

import (
	"context"
	"iter"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
	"github.com/kymogram/kymogram/server/internal/store/local/curve"
)

// Touching takes views of the series that may have points which a read asks for, by key.
// Most series of a run may have none: no view is made of them.
func (t *Table) Touching(ctx context.Context, q *curve.Stretch) iter.Seq2[*curve.View, error] {
	return func(yield func(*curve.View, error) bool) {
		r, order, err := t.ordered(q.Run)
		if err != nil {
			yield(nil, err)
			return
		}
		metrics := q.Metrics
		if len(metrics) == 0 {
			metrics = []string{""} // all
		}
		l := &lister{}
		for _, metric := range metrics {
			of := l.wanted(r, order, store.SeriesFilter{Metric: metric, After: q.After})
			for part := range slices.Chunk(of, lookedAtOnce) {
				if err := ctx.Err(); err != nil {
					yield(nil, model.Errorf(model.CodeTimeout, "the read was stopped: %v", err))
					return
				}
				for _, id := range r.touching(l, part, q) {
					v, err := t.View(q.Run, store.SeriesID(id))
					if !yield(v, err) || err != nil {
						return
					}
				}
			}
		}
	}
}

// touching are those of some series that a read is about.
func (r *Run) touching(l *lister, part []uint32, q *curve.Stretch) (out []uint32) {
	r.share()
	defer r.mu.RUnlock()
	if r.deleted {
		return nil
	}
	for _, id := range part {
		s := r.series[id]
		if s.live != nil && s.live.reaches(q) && (q.Match == nil || q.Match(l.keyOf(s.Text))) {
			out = append(out, id)
		}
	}
	return out
}

// reaches reports whether the series may have a point that is asked for.
func (l *live) reaches(q *curve.Stretch) bool {
	return q.Has(l.mask) &&
		(slices.ContainsFunc(l.mem, func(m memRef) bool { return m.group.table == nil || q.Reaches(&m.group.table.extent) }) ||
			slices.ContainsFunc(l.chunks, func(c column.Chunk) bool { return q.Reaches(c.Group.Extent()) }))
}
