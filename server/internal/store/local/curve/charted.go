package curve

import (
	"slices"
	"sort"

	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
)

// hole is a range of an overlay whose points are read: points in memory lie in
// it, or an end of the range that is asked for.
type hole struct {
	lo, hi     int64
	first, end int // leaves; none for a gap in front of first
}

// charted is the spans of a curve from its overlay; false when there is none.
func (b *bucketing) charted(sel store.Attempts) ([]span, bool) {
	if sel.All || sel.Number != 0 {
		return nil, false
	}
	o := b.overlayOf(b.axis)
	if o == nil || !b.meetsAtX() {
		return nil, false
	}
	first, end := o.between(b.from, b.to)
	holes := b.holes(o, first, end)
	var out []span
	for _, h := range holes {
		out = append(out, b.readBetween(h.lo, h.hi)...)
	}
	b.reach(out)
	at := first
	for _, h := range append(holes, hole{first: end, end: end}) {
		if at < h.first {
			b.see(o.leaves[at].Lo, o.leaves[h.first-1].Hi)
		}
		at = max(at, h.end)
	}
	at = first
	for _, h := range append(holes, hole{first: end, end: end}) {
		if at < h.first {
			out = append(out, b.cover(o, at, h.first)...)
		}
		at = max(at, h.end)
	}
	return out, true
}

// meetsAtX: points in memory supersede others at the same x only, or none.
func (b *bucketing) meetsAtX() bool {
	mem := b.Chunks[b.InSegments:]
	if len(mem) == 0 {
		return true
	}
	c := rules{View: b.View, chunks: b.Chunks}
	if c.sweepAxis() == b.axis {
		return true
	}
	for i, m := range mem {
		e := m.Group.Extent()
		if c.judge(e) != keepAll {
			return false
		}
		for _, o := range b.Chunks[:b.InSegments+i] {
			if c.mayConflict(e, o.Group.Extent()) {
				return false
			}
		}
	}
	return true
}

// holes lists what is read instead of the leaves first…end.
func (b *bucketing) holes(o *overlay, first, end int) (out []hole) {
	var xs []int64
	if first < end {
		if o.leaves[first].Lo < b.from {
			xs = append(xs, b.from)
		}
		if o.leaves[end-1].Hi > b.to {
			xs = append(xs, b.to)
		}
	}
	for _, m := range b.Chunks[b.InSegments:] {
		if !m.OnAxis(b.axis) {
			continue
		}
		r, err := m.Group.Rows()
		if err != nil {
			b.lost(err)
			continue
		}
		for _, x := range r.X(b.axis) {
			if x >= b.from && x <= b.to {
				xs = append(xs, x)
			}
		}
	}
	slices.Sort(xs)
	for _, x := range xs {
		out = addHole(out, o.holeAt(x))
	}
	return out
}

func (o *overlay) holeAt(x int64) hole {
	i := sort.Search(len(o.leaves), func(i int) bool { return o.leaves[i].Hi >= x })
	if i < len(o.leaves) && o.leaves[i].Lo <= x {
		return hole{o.leaves[i].Lo, o.leaves[i].Hi, i, i + 1}
	}
	return hole{x, x, i, i}
}

// addHole joins holes that no leaf parts.
func addHole(out []hole, h hole) []hole {
	if n := len(out); n > 0 && h.first <= out[n-1].end {
		last := &out[n-1]
		last.hi, last.end = max(last.hi, h.hi), max(last.end, h.end)
		return out
	}
	return append(out, h)
}

// readBetween is the spans of the points in a range, superseded ones left out.
func (b *bucketing) readBetween(lo, hi int64) []span {
	return b.spans(b.readableBetween(b.axisChunks(), lo, hi))
}

// axisChunks are the chunks that have the axis.
func (b *bucketing) axisChunks() []column.Chunk {
	if b.onX == nil {
		b.onX = slices.DeleteFunc(slices.Clone(b.Chunks), func(c column.Chunk) bool { return !c.OnAxis(b.axis) })
	}
	return b.onX
}

// cover is the spans of leaves that nothing touches.
func (b *bucketing) cover(o *overlay, first, end int) (out []span) {
	var wide []hole // leaves of several groups that are wider than a cell
	o.cover(first, end, func(n *column.Block) bool { return b.fits(n.Lo, n.Hi) }, func(n *column.Block, l *leaf) {
		switch {
		case l == nil || l.chunk.Group == nil && b.fits(n.Lo, n.Hi):
			out = append(out, span{lo: n.Lo, hi: n.Hi, sum: n.Sum, known: true})
		case l.chunk.Group == nil:
			wide = addHole(wide, o.holeAt(n.Lo))
		default:
			out = append(out, span{lo: n.Lo, hi: n.Hi, sum: n.Sum, known: true, piece: piece{Chunk: l.chunk}})
		}
	})
	for _, h := range wide {
		out = append(out, b.readBetween(h.lo, h.hi)...)
	}
	return out
}
