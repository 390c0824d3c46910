package local

import (
	"math"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
	"github.com/kymogram/kymogram/server/internal/store/local/segment"
)

// curveEnd is what a series' list entry and its next step need: a summary of
// the curve, good for one version of the series.
type curveEnd struct {
	version, epoch uint64
	count, stored  uint64
	mask           column.AxisSet         // axes of the curve's points
	hi             *[column.NumAxes]int64 // never written to: that of a group where it can be; nil when empty
	tlo, thi       int64                  // of the curve
	slo, shi       int64                  // of all stored points
	last           column.Place
	lastX          int // axis of last: the step, or -1
	value          store.Number
	// sole is the source that wrote every point so far, in rows of one shape that
	// rose up to tail: later ones replace nothing. Only when known.
	known bool
	sole  uint32
	shape column.Shape
	tail  *column.SortKey
}

// end returns the summary of a view, computed at most once per version.
func (v *view) end() *curveEnd {
	if old := v.series.end.Load(); old != nil && old.version == v.version && old.epoch == v.epoch {
		return old
	}
	out := v.computeEnd()
	v.series.end.Store(out)
	return out
}

func (v *view) computeEnd() *curveEnd {
	out := &curveEnd{version: v.version, epoch: v.epoch, lastX: -1}
	for _, c := range v.chunks {
		out.store(c.Group.Extent())
	}
	if t := v.tallyOf(); t == nil || !t.endWith(v, out) {
		out.addPieces(v, v.pieces(store.Attempts{}))
	}
	return out
}

// addPieces takes in what is left of groups.
func (c *curveEnd) addPieces(v *view, pieces []piece) {
	best, bestRow := -1, int32(0)
	for i := range pieces {
		if row, better := c.take(v, &pieces[i]); better {
			best, bestRow = i, row
		}
	}
	if best >= 0 {
		c.value = v.valueAt(&pieces[best], bestRow)
	}
}

// take adds a piece; better says that its row is the last one so far.
func (c *curveEnd) take(v *view, p *piece) (row int32, better bool) {
	e := p.left(v)
	var keep *[column.NumAxes]int64
	if g, ok := p.Group.(*segment.Group); ok && p.whole() {
		keep = &g.Ext.Hi
	}
	return e.Last, c.merge(e, keep, v.lineage)
}

// left is the extent of the rows of a piece.
func (p *piece) left(v *view) *column.Extent {
	e := p.Group.Extent()
	if p.whole() {
		return e
	}
	sub := column.Rows{Mask: e.Mask, Mode: e.Mode}
	sub.Add(p.rows, p.keep)
	kept := column.Measure(&sub, v.lineage.writers)
	kept.Last = p.keep[kept.Last]
	return &kept
}

// merge adds points that are all of the curve; better says that their last one
// is the last so far. keep is the extent's hi when it may be pointed to for as
// long as the series lives.
func (c *curveEnd) merge(e *column.Extent, keep *[column.NumAxes]int64, l *lineage) (better bool) {
	if c.count == 0 {
		c.tlo, c.thi = e.MinTime, e.MaxTime
	}
	c.tlo, c.thi = min(c.tlo, e.MinTime), max(c.thi, e.MaxTime)
	c.widenTo(e, keep)
	x := e.XAxis()
	at := e.LastPlace(l.writers)
	better = c.count == 0 || x == column.Step && c.lastX != column.Step || x == c.lastX && at.Compare(c.last) > 0
	c.mask |= e.Mask
	c.count += uint64(e.Rows)
	if better {
		c.last, c.lastX = at, x
	}
	return better
}

// widenTo takes in the largest of each axis. Most often the later group has all
// of them, and its own can be pointed to.
func (c *curveEnd) widenTo(e *column.Extent, keep *[column.NumAxes]int64) {
	hi := [column.NumAxes]int64{}
	if c.hi != nil {
		hi = *c.hi
	}
	for a := range column.NumAxes {
		if e.Mask.Has(a) && (!c.mask.Has(a) || e.Hi[a] > hi[a]) {
			hi[a] = e.Hi[a]
		}
	}
	switch {
	case c.hi != nil && hi == *c.hi:
	case keep != nil && hi == *keep:
		c.hi = keep
	default:
		c.hi = &hi
	}
}

// store adds points to the totals of what is stored.
func (c *curveEnd) store(e *column.Extent) {
	if c.stored == 0 {
		c.slo, c.shi = e.MinTime, e.MaxTime
	}
	c.slo, c.shi = min(c.slo, e.MinTime), max(c.shi, e.MaxTime)
	c.stored += uint64(e.Rows)
}

// valueAt reads one value; whole chunks have their last one in the index.
func (v *view) valueAt(p *piece, row int32) store.Number {
	if sum, ok := p.Group.Summary(p.Col); ok && row == p.Group.Extent().Last && column.Numeric(v.kind) {
		return column.NumberOf(v.kind, sum.Last)
	}
	vals, err := p.Group.Values(p.Col)
	if err != nil {
		v.damaged(err)
		return store.Number{Float: math.NaN()}
	}
	return vals.At(int(row))
}

// growth is what the rows just appended to a group mean to its series.
type growth struct {
	ext   column.Extent // of the new rows
	src   uint32
	keyed bool
	first column.SortKey
	tail  *column.SortKey
	hi    *[column.NumAxes]int64
}

func (m *memGroup) growth(from int, l *lineage) growth {
	fresh := m.shared.Slice(from, m.shared.Len())
	g := growth{ext: column.Measure(&fresh, l.writers), src: fresh.Source[0]}
	g.first, g.keyed = fresh.SortKey(0)
	tail, _ := fresh.SortKey(fresh.Len() - 1)
	hi := g.ext.Hi
	g.tail, g.hi = &tail, &hi // the ends of all series of the group point to them
	return g
}

// extended is the summary after rows that go on where it ended, or nil when
// that is not sure: another source or shape, or a key that does not rise.
func (c *curveEnd) extended(g *growth, v *column.Values, from int, l *lineage) *curveEnd {
	if !g.ext.Distinct || l.hidden[g.src] {
		return nil
	}
	kind := column.Shape{Mask: g.ext.Mask, Mode: g.ext.Mode}
	if c.stored > 0 && (!c.known || c.sole != g.src || c.shape != kind || g.keyed && !c.tail.Less(g.first)) {
		return nil
	}
	next := *c
	next.known, next.sole, next.tail, next.shape = true, g.src, g.tail, kind
	next.store(&g.ext)
	if next.merge(&g.ext, g.hi, l) {
		next.value = v.At(from + int(g.ext.Last))
	}
	return &next
}

// nextStep is 1 + the last step of the curve; of environment steps that of the
// key's episode, or of the points without one. 0 when there is none.
func (v *view) nextStep(key record.StartKey) int64 {
	if !key.Episodic && !(v.series.key.Scale == model.ScaleEnvironment && v.mask.Has(column.Episode)) {
		end := v.end()
		if !end.mask.Has(column.Step) {
			return 0
		}
		return after(end.hi[column.Step])
	}
	found, last := v.lastStepOf(key)
	if !found {
		return 0
	}
	return after(last)
}

// after is the step behind one; the last of all has none and is repeated.
func after(step int64) int64 {
	if step == math.MaxInt64 {
		return step
	}
	return step + 1
}

// lastStepOf is the largest step of the curve in an episode, or without one.
func (v *view) lastStepOf(key record.StartKey) (found bool, last int64) {
	near := *v
	near.chunks = slices.DeleteFunc(slices.Clone(v.chunks), func(c column.Chunk) bool { return apart(c.Group.Extent(), key) })
	for _, p := range near.pieces(store.Attempts{}) {
		e := p.Group.Extent()
		if !e.Mask.Has(column.Step) || e.Mask.Has(column.Episode) != key.Episodic || key.Episodic && !e.Spans(column.Episode, key.Episode) {
			continue
		}
		r := p.rows
		if r == nil {
			var err error
			if r, err = p.Group.Rows(); err != nil {
				v.damaged(err)
				continue
			}
		}
		for _, i := range p.picked(r.Len()) {
			if step := r.Axes[column.Step][i]; (!key.Episodic || r.Axes[column.Episode][i] == key.Episode) && (!found || step > last) {
				found, last = true, step
			}
		}
	}
	return found, last
}

// picked lists the rows of a piece.
func (p *piece) picked(n int) []int32 {
	if p.keep != nil {
		return p.keep
	}
	return column.UpTo(0, n)
}

// apart: no row is of the key's episode or replaces one that is, because rows of the
// RL scales replace only those with all axes equal. Without it every episode of a
// long backlog would compare all that came before.
func apart(x *column.Extent, key record.StartKey) bool {
	return x.Mode == model.UniqueAxes && x.Mask.Has(column.Episode) && !(key.Episodic && x.Spans(column.Episode, key.Episode))
}
