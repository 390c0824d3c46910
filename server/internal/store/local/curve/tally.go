package curve

import (
	"slices"

	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
)

// tally is what is left of each flushed group of a series in its curve: with it
// the curve's end after new points needs only the groups that they touch.
type tally struct {
	layout, epoch uint64
	axis          int
	left          []remainder // of the flushed groups, in their order
}

// remainder is the rows of a group that are not superseded.
type remainder struct {
	ext   column.Extent // n is 0 when there are none
	value store.Number
}

// tallyOf is nil for short series, for those without superseded points, and
// where points meet by something else than one axis.
func (v *View) tallyOf() *tally {
	if !v.long() {
		return nil
	}
	if t := v.Memo.known().tally; t != nil && t.layout == v.Layout && t.epoch == v.Epoch {
		return t
	}
	c := rules{View: v, chunks: slices.Clone(v.flushed())}
	axis := c.sweepAxis()
	if axis < -1 || c.untouched() {
		return nil
	}
	t := &tally{layout: v.Layout, epoch: v.Epoch, axis: axis, left: make([]remainder, len(v.flushed()))}
	at := map[column.Group]int{}
	for i, c := range v.flushed() {
		at[c.Group] = i
	}
	for _, cluster := range overlapping(v.left(), axis) {
		for lo, hi := range windows(cluster, axis, v.Limits.Window) {
			t.count(v, cluster, at, lo, hi)
		}
	}
	v.keep(func(w *worked) { w.tally = t })
	return t
}

// count adds up the groups that begin in a window.
func (t *tally) count(v *View, cluster []column.Chunk, at map[column.Group]int, lo, hi int64) {
	begins := func(c column.Chunk) bool {
		from, _ := c.Group.Extent().Span(t.axis)
		return from >= lo && from <= hi
	}
	reach := lo
	for _, c := range cluster {
		if begins(c) {
			_, to := c.Group.Extent().Span(t.axis)
			reach = max(reach, to)
		}
	}
	for _, p := range v.resolveBetween(cluster, t.axis, lo, reach) {
		if begins(p.Chunk) {
			t.left[at[p.Group]] = v.remainder(&p)
		}
	}
}

func (v *View) remainder(p *piece) remainder {
	one := &End{LastX: -1}
	row, _ := one.take(v, p)
	return remainder{*p.left(v), v.valueAt(p, row)}
}

// endWith adds up what is left of every group; those that points in memory
// touch are read. False when points meet in another way than at one x.
func (t *tally) endWith(v *View, out *End) bool {
	mem := v.Chunks[v.InSegments:]
	c := rules{View: v, chunks: slices.Clone(v.Chunks)}
	if len(mem) > 0 && c.sweepAxis() != t.axis {
		return false
	}
	fresh := map[column.Group]bool{}
	for _, m := range mem {
		fresh[m.Group] = true
	}
	for i, f := range v.flushed() {
		if slices.ContainsFunc(mem, func(m column.Chunk) bool { return c.mayConflict(m.Group.Extent(), f.Group.Extent()) }) {
			fresh[f.Group] = true
			continue
		}
		if r := &t.left[i]; r.ext.Rows > 0 && out.merge(&r.ext, nil, v.Lineage) {
			out.Value = r.value
		}
	}
	if len(fresh) > 0 {
		out.addFresh(v, t.axis, fresh)
	}
	return true
}

// addFresh resolves some groups together with all that share x with them.
func (c *End) addFresh(v *View, axis int, fresh map[column.Group]bool) {
	around := rules{View: v}
	touched := slices.DeleteFunc(slices.Clone(v.Chunks), func(o column.Chunk) bool { return !fresh[o.Group] })
	for _, ch := range v.Chunks {
		if slices.ContainsFunc(touched, func(o column.Chunk) bool { return ch.Group.Extent().Overlaps(o.Group.Extent(), axis) }) {
			around.chunks = append(around.chunks, ch)
		}
	}
	var pieces []piece
	for _, group := range around.components() {
		for _, p := range around.resolve(group) {
			if fresh[p.Group] {
				pieces = append(pieces, p)
			}
		}
	}
	c.addPieces(v, pieces)
}
