package local

import (
	"math"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
)

// curveEnd is what a series' list entry and its next step need: a summary of
// the curve, good for one version of the series.
type curveEnd struct {
	version, epoch uint64
	count, stored  uint64
	mask           axisSet         // axes of the curve's points
	hi             *[numAxes]int64 // never written to: that of a group where it can be; nil when empty
	tlo, thi       int64           // of the curve
	slo, shi       int64           // of all stored points
	last           place
	lastX          int // axis of last: the step, or -1
	value          store.Number
	// sole is the source that wrote every point so far, in rows of one shape that
	// rose up to tail: later ones replace nothing. Only when known.
	known bool
	sole  uint32
	shape shape
	tail  *sortKey
}

// shape is what rows must share for their keys to compare.
type shape struct {
	mask axisSet
	mode model.Uniqueness
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
		out.store(c.group.extent())
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
	var keep *[numAxes]int64
	if g, ok := p.group.(*segmentGroup); ok && p.whole() {
		keep = &g.ext.hi
	}
	return e.last, c.merge(e, keep, v.lineage)
}

// left is the extent of the rows of a piece.
func (p *piece) left(v *view) *extent {
	e := p.group.extent()
	if p.whole() {
		return e
	}
	sub := rows{mask: e.mask, mode: e.mode}
	sub.add(p.rows, p.keep)
	kept := measure(&sub, v.lineage)
	kept.last = p.keep[kept.last]
	return &kept
}

// merge adds points that are all of the curve; better says that their last one
// is the last so far. keep is the extent's hi when it may be pointed to for as
// long as the series lives.
func (c *curveEnd) merge(e *extent, keep *[numAxes]int64, l *lineage) (better bool) {
	if c.count == 0 {
		c.tlo, c.thi = e.tlo, e.thi
	}
	c.tlo, c.thi = min(c.tlo, e.tlo), max(c.thi, e.thi)
	c.widenTo(e, keep)
	x := e.xAxis()
	at := e.lastPlace(l)
	better = c.count == 0 || x == axStep && c.lastX != axStep || x == c.lastX && at.compare(c.last) > 0
	c.mask |= e.mask
	c.count += uint64(e.n)
	if better {
		c.last, c.lastX = at, x
	}
	return better
}

// widenTo takes in the largest of each axis. Most often the later group has all
// of them, and its own can be pointed to.
func (c *curveEnd) widenTo(e *extent, keep *[numAxes]int64) {
	hi := [numAxes]int64{}
	if c.hi != nil {
		hi = *c.hi
	}
	for a := range numAxes {
		if e.mask.has(a) && (!c.mask.has(a) || e.hi[a] > hi[a]) {
			hi[a] = e.hi[a]
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
func (c *curveEnd) store(e *extent) {
	if c.stored == 0 {
		c.slo, c.shi = e.tlo, e.thi
	}
	c.slo, c.shi = min(c.slo, e.tlo), max(c.shi, e.thi)
	c.stored += uint64(e.n)
}

// valueAt reads one value; whole chunks have their last one in the index.
func (v *view) valueAt(p *piece, row int32) store.Number {
	if sum, ok := p.group.summary(p.col); ok && row == p.group.extent().last && numeric(v.kind) {
		return numberOf(v.kind, sum.last)
	}
	vals, err := p.group.values(p.col)
	if err != nil {
		v.damaged(err)
		return store.Number{Float: math.NaN()}
	}
	return vals.at(int(row))
}

func (v *values) at(i int) store.Number {
	switch v.kind {
	case model.KindFloat:
		return store.Number{Float: v.floats[i]}
	case model.KindInt:
		return store.Number{Int: v.ints[i]}
	}
	return store.Number{Doc: v.docs[i]}
}

func numberOf(kind model.Kind, bits uint64) store.Number {
	if kind == model.KindInt {
		return store.Number{Int: int64(bits)}
	}
	return store.Number{Float: math.Float64frombits(bits)}
}

// sortKey is what rows of one shape rise by, see rows.compareKey.
type sortKey [numAxes]int64

func (k sortKey) less(o sortKey) bool { return slices.Compare(k[:], o[:]) < 0 }

// sortKey is false for rows that are never the same point as another.
func (r *rows) sortKey(i int) (key sortKey, ok bool) {
	switch {
	case r.mode == model.UniqueTime:
		key[0] = r.time[i]
		return key, true
	case r.mode == model.UniqueStep && r.mask.has(axStep):
		key[0] = r.axes[axStep][i]
		return key, true
	case r.mode == model.UniqueStep || r.mask == 0:
		return key, false
	}
	for n, a := range axisOrder() {
		if r.mask.has(a) {
			key[n] = r.axes[a][i]
		}
	}
	return key, true
}

// growth is what the rows just appended to a group mean to its series.
type growth struct {
	ext   extent // of the new rows
	src   uint32
	keyed bool
	first sortKey
	tail  *sortKey
	hi    *[numAxes]int64
}

func (m *memGroup) growth(from int, l *lineage) growth {
	fresh := m.shared.slice(from, m.shared.len())
	g := growth{ext: measure(&fresh, l), src: fresh.src[0]}
	g.first, g.keyed = fresh.sortKey(0)
	tail, _ := fresh.sortKey(fresh.len() - 1)
	hi := g.ext.hi
	g.tail, g.hi = &tail, &hi // the ends of all series of the group point to them
	return g
}

// extended is the summary after rows that go on where it ended, or nil when
// that is not sure: another source or shape, or a key that does not rise.
func (c *curveEnd) extended(g *growth, v *values, from int, l *lineage) *curveEnd {
	if !g.ext.distinct || l.hidden[g.src] {
		return nil
	}
	kind := shape{g.ext.mask, g.ext.mode}
	if c.stored > 0 && (!c.known || c.sole != g.src || c.shape != kind || g.keyed && !c.tail.less(g.first)) {
		return nil
	}
	next := *c
	next.known, next.sole, next.tail, next.shape = true, g.src, g.tail, kind
	next.store(&g.ext)
	if next.merge(&g.ext, g.hi, l) {
		next.value = v.at(from + int(g.ext.last))
	}
	return &next
}

func upTo(from, to int) []int32 {
	out := make([]int32, 0, to-from)
	for i := from; i < to; i++ {
		out = append(out, int32(i))
	}
	return out
}

// nextStep is 1 + the last step of the curve; of environment steps that of the
// key's episode, or of the points without one. 0 when there is none.
func (v *view) nextStep(key startKey) int64 {
	if !key.episodic && !(v.series.key.Scale == model.ScaleEnvironment && v.mask.has(axEpisode)) {
		end := v.end()
		if !end.mask.has(axStep) {
			return 0
		}
		return after(end.hi[axStep])
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
func (v *view) lastStepOf(key startKey) (found bool, last int64) {
	near := *v
	near.chunks = slices.DeleteFunc(slices.Clone(v.chunks), func(c chunk) bool { return c.group.extent().apart(key) })
	for _, p := range near.pieces(store.Attempts{}) {
		e := p.group.extent()
		if !e.mask.has(axStep) || e.mask.has(axEpisode) != key.episodic || key.episodic && !e.spans(axEpisode, key.episode) {
			continue
		}
		r := p.rows
		if r == nil {
			var err error
			if r, err = p.group.rows(); err != nil {
				v.damaged(err)
				continue
			}
		}
		for _, i := range p.picked(r.len()) {
			if step := r.axes[axStep][i]; (!key.episodic || r.axes[axEpisode][i] == key.episode) && (!found || step > last) {
				found, last = true, step
			}
		}
	}
	return found, last
}

// apart: no row is of the key's episode or replaces one that is, because rows of the
// RL scales replace only those with all axes equal. Without it every episode of a
// long backlog would compare all that came before.
func (x *extent) apart(key startKey) bool {
	return x.mode == model.UniqueAxes && x.mask.has(axEpisode) && !(key.episodic && x.spans(axEpisode, key.episode))
}

func (x *extent) spans(axis int, at int64) bool { return x.lo[axis] <= at && at <= x.hi[axis] }

// picked lists the rows of a piece.
func (p *piece) picked(n int) []int32 {
	if p.keep != nil {
		return p.keep
	}
	return upTo(0, n)
}
