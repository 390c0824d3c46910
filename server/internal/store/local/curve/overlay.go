package curve

import (
	"cmp"
	"context"
	"iter"
	"math"
	"runtime"
	"slices"
	"sort"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
)

// overlay is the curve of a series' flushed points along an axis as disjoint
// summaries, in levels: what several row groups have at the same x, superseded
// points included, is worked out once. It is kept with the series until its
// groups or the rules change, so that a chart of any length reads a bounded
// number of summaries (docs/design/0008-reads-that-do-not-grow.md).
//
//	step      0         100        200        300        400
//	group A   ├──────────────────────┤                         attempt 1
//	group B                    ├─────────┤                     attempt 2, hides A at its steps
//	group C                                     ├────────┤
//	leaves    ├─ A ──┤├─ A ───┤├─ B ─────┤      ├── C ───┤
//	level 1   └────────────── up to 4 leaves ────────────┘
//
// Nothing touches C, so its stored summary is a leaf as it is. A and B overlap: their
// points are read window by window, the superseded ones dropped, and the others
// summed up in leaves of some points. A chart takes the highest nodes that fit into
// one of its cells. It reads points only in holes: leaves that points in memory touch,
// and those that an end of the range cuts (charted.go).
type overlay struct {
	layout, epoch uint64
	axis          int
	partial       bool           // something could not be read; it may be next time
	of            []column.Chunk // the flushed groups that it is of, not to be written to
	swept         bool           // points are told apart by the axis; else nothing is superseded
	reach         int64          // the last x of these groups
	leaves        []leaf
	levels        [][]column.Block // each sums up fanOut of the one below, the first of leaves
}

// leaf is a whole row group that no other one overlaps, or some rows of several.
type leaf struct {
	column.Block
	chunk column.Chunk // without a group: rows of several
}

const fanOut = 4

// Limits say where working things out ahead pays: where a read would touch
// many groups or rows.
type Limits struct {
	Chunks, Rows int
	Window       int // so many overlapping groups are resolved at a time
	Leaf         int // points of a leaf of several groups
	// Page is how many bytes of texts and documents a page has: one of long ones has
	// fewer rows than it was asked for.
	Page int
	// texts has room for as many reads of texts and documents as there are processors:
	// each reads whole columns for its page, which takes several times as much.
	texts chan struct{}
}

// readTexts waits for the turn of a series of texts or documents.
func (v *View) readTexts(ctx context.Context) (done func(), err error) {
	if column.Numeric(v.Series.Kind) {
		return func() {}, nil
	}
	select {
	case v.Limits.texts <- struct{}{}:
		return func() { <-v.Limits.texts }, nil
	case <-ctx.Done():
		return nil, model.Errorf(model.CodeTimeout, "the read was stopped: %v", ctx.Err())
	}
}

// DefaultLimits are those of an engine at work.
func DefaultLimits() Limits {
	return Limits{Chunks: 16, Rows: 16 << 10, Window: 64, Leaf: 512, Page: 8 << 20, texts: make(chan struct{}, runtime.GOMAXPROCS(0))}
}

// long: working things out ahead pays.
func (v *View) long() bool {
	l := &v.Limits
	return len(v.flushed()) > 1 && (len(v.flushed()) >= l.Chunks || v.flushedRows() >= l.Rows)
}

// overlayOf is the overlay of the flushed groups, nil where none pays or holds.
func (v *View) overlayOf(axis int) *overlay {
	if !column.Numeric(v.Series.Kind) || !v.long() {
		return nil
	}
	old := v.Memo.known().overlay
	if old != nil && (old.epoch != v.Epoch || old.axis != axis) {
		old = nil
	}
	if old != nil && old.layout == v.Layout {
		return old
	}
	o := old.extended(v)
	if o == nil {
		o = v.buildOverlay(axis)
	}
	if o != nil && !o.partial {
		v.keep(func(w *worked) { w.overlay = o })
	}
	return o
}

func (v *View) flushed() []column.Chunk { return v.Chunks[:v.InSegments] }

// left are the flushed groups that no later attempt has done away with.
func (v *View) left() []column.Chunk {
	return slices.DeleteFunc(slices.Clone(v.flushed()), func(c column.Chunk) bool { return v.gone(c.Group.Extent()) })
}

func (v *View) flushedRows() (n int) {
	for _, c := range v.flushed() {
		n += c.Group.Extent().Rows
	}
	return n
}

// buildOverlay reads what overlaps; nil when superseded points are told apart by
// something else than the axis.
func (v *View) buildOverlay(axis int) *overlay {
	c := rules{View: v, chunks: v.left()}
	swept := c.sweepAxis() == axis
	if !swept && !c.untouched() {
		return nil
	}
	o := &overlay{layout: v.Layout, epoch: v.Epoch, axis: axis, of: v.flushed(), swept: swept, reach: math.MinInt64}
	o.add(v, c.chunks)
	return o
}

// extended is the overlay with the groups that came since, nil where they do not all lie
// behind what it is of: it has to be built anew. A series that is written goes on, so
// that its charts need not look at each of its groups again after each flush.
func (o *overlay) extended(v *View) *overlay {
	if o == nil || len(o.of) == 0 || len(o.of) > v.InSegments || !slices.Equal(o.of, v.Chunks[:len(o.of)]) {
		return nil
	}
	c := rules{View: v, chunks: slices.DeleteFunc(slices.Clone(v.flushed()[len(o.of):]), func(c column.Chunk) bool { return v.gone(c.Group.Extent()) })}
	for _, ch := range c.chunks {
		if lo, _ := ch.Group.Extent().Span(o.axis); !ch.OnAxis(o.axis) || lo <= o.reach {
			return nil
		}
	}
	if !o.goesOn(&c) {
		return nil
	}
	next := *o
	next.layout, next.of, next.levels = v.Layout, v.flushed(), nil
	next.leaves = slices.Clip(o.leaves) // others read the old ones, and may extend them too
	next.add(v, c.chunks)
	return &next
}

// goesOn: what lets the overlay be holds for later groups as well.
func (o *overlay) goesOn(c *rules) bool {
	if o.swept {
		with := rules{View: c.View, chunks: append(slices.Clone(c.chunks), o.of[0])}
		return with.sweepAxis() == o.axis
	}
	return c.untouched() && !slices.ContainsFunc(c.chunks, func(n column.Chunk) bool {
		return slices.ContainsFunc(o.of, func(ch column.Chunk) bool { return c.mayConflict(n.Group.Extent(), ch.Group.Extent()) })
	})
}

// add takes in groups behind those that are there.
func (o *overlay) add(v *View, chunks []column.Chunk) {
	chunks = slices.DeleteFunc(chunks, func(c column.Chunk) bool { return !c.OnAxis(o.axis) })
	for _, c := range chunks {
		_, hi := c.Group.Extent().Span(o.axis)
		o.reach = max(o.reach, hi)
	}
	for _, cluster := range overlapping(chunks, o.axis) {
		o.addCluster(v, cluster)
	}
	for below := len(o.leaves); below > fanOut; below = len(o.levels[len(o.levels)-1]) {
		o.addLevel(below)
	}
}

// untouched: no point of the chunks is superseded or may be by another of them.
func (c *rules) untouched() bool {
	list := c.components()
	return len(list) == len(c.chunks) && !slices.ContainsFunc(list, func(one []column.Chunk) bool { return c.judge(one[0].Group.Extent()) != keepAll })
}

// overlapping parts chunks into runs that share x, by rising x.
func overlapping(chunks []column.Chunk, axis int) (out [][]column.Chunk) {
	slices.SortStableFunc(chunks, func(a, b column.Chunk) int {
		alo, _ := a.Group.Extent().Span(axis)
		blo, _ := b.Group.Extent().Span(axis)
		return cmp.Compare(alo, blo)
	})
	reach, from := int64(math.MinInt64), 0
	for i, c := range chunks {
		lo, hi := c.Group.Extent().Span(axis)
		if i > from && lo > reach {
			out = append(out, chunks[from:i])
			from = i
		}
		reach = max(reach, hi)
	}
	if from < len(chunks) {
		out = append(out, chunks[from:])
	}
	return out
}

// addCluster takes a group as it is when nothing touches it, else its points.
func (o *overlay) addCluster(v *View, cluster []column.Chunk) {
	c := rules{View: v}
	if e := cluster[0].Group.Extent(); len(cluster) == 1 {
		switch c.judge(e) {
		case dropAll:
			return
		case keepAll:
			if sum, ok := cluster[0].Group.Summary(cluster[0].Col); ok {
				lo, hi := e.Span(o.axis)
				o.leaves = append(o.leaves, leaf{column.Block{Lo: lo, Hi: hi, Sum: sum}, cluster[0]})
				return
			}
		}
	}
	for lo, hi := range windows(cluster, o.axis, v.Limits.Window) {
		points := o.pointsBetween(v, cluster, lo, hi)
		o.addPoints(leafSize(v.Limits.Leaf, len(points), rowsFrom(cluster, o.axis, lo, hi)), points)
		if v.over() {
			o.partial = true
			return
		}
	}
}

// leafSize is how many points a leaf has at least: fewer where many rows are read for
// each, because most are superseded.
func leafSize(most, points, rows int) int {
	return max(1, min(most, most*points/max(1, rows)))
}

// rowsFrom counts the rows of the chunks that begin in a range.
func rowsFrom(chunks []column.Chunk, axis int, lo, hi int64) (n int) {
	for _, c := range chunks {
		if from, _ := c.Group.Extent().Span(axis); from >= lo && from <= hi {
			n += c.Group.Extent().Rows
		}
	}
	return n
}

// windows parts the range of overlapping chunks, by rising x, into ranges that
// so many of them begin in, so that memory stays bounded.
func windows(chunks []column.Chunk, axis, each int) iter.Seq2[int64, int64] {
	return func(yield func(lo, hi int64) bool) {
		from := int64(math.MinInt64)
		for at := each; at < len(chunks); at++ {
			next, _ := chunks[at].Group.Extent().Span(axis)
			if first, _ := chunks[at-1].Group.Extent().Span(axis); next == first || next == math.MinInt64 {
				continue // several begin at one x
			}
			if !yield(from, next-1) {
				return
			}
			from = next
			at += each - 1
		}
		yield(from, math.MaxInt64)
	}
}

// plotted is a point as a chart sees it.
type plotted struct {
	x    int64
	vals *column.Values
	row  int32
}

// pointsBetween lists the points of the curve with from ≤ x ≤ to, by rising x.
func (o *overlay) pointsBetween(v *View, chunks []column.Chunk, from, to int64) (out []plotted) {
	for _, p := range v.resolveBetween(chunks, o.axis, from, to) {
		r, vals, ok := v.read(&p)
		if !ok {
			o.partial = true
			continue
		}
		xs := r.X(o.axis)
		for _, i := range p.picked(r.Len()) {
			if x := xs[i]; x >= from && x <= to {
				out = append(out, plotted{x, &vals, i})
			}
		}
	}
	if byX := func(a, b plotted) int { return cmp.Compare(a.x, b.x) }; !slices.IsSortedFunc(out, byX) {
		slices.SortStableFunc(out, byX)
	}
	return out
}

// resolveBetween is what is left of the chunks that have points in a range. Only
// points at the same x meet, so nothing else is needed.
func (v *View) resolveBetween(chunks []column.Chunk, axis int, from, to int64) (out []piece) {
	c := rules{View: v}
	for _, ch := range chunks {
		if lo, hi := ch.Group.Extent().Span(axis); hi >= from && lo <= to && !v.gone(ch.Group.Extent()) {
			c.chunks = append(c.chunks, ch)
		}
	}
	for _, group := range c.components() {
		out = append(out, c.resolve(group)...)
	}
	return out
}

// addPoints makes leaves of at least so many points; equal x stay together.
func (o *overlay) addPoints(atLeast int, points []plotted) {
	for from := 0; from < len(points); {
		to := min(from+atLeast, len(points))
		for to < len(points) && points[to].x == points[to-1].x {
			to++
		}
		l := leaf{Block: column.Block{Lo: points[from].x, Hi: points[to-1].x, Sum: column.EmptyAggregate()}}
		for _, p := range points[from:to] {
			l.Sum.AddRow(p.vals, int(p.row))
		}
		o.leaves = append(o.leaves, l)
		from = to
	}
}

func (o *overlay) addLevel(below int) {
	var next []column.Block
	for from := 0; from < below; from += fanOut {
		n := *o.node(len(o.levels), from)
		for i := from + 1; i < min(from+fanOut, below); i++ {
			b := o.node(len(o.levels), i)
			n.Hi = b.Hi
			n.Sum.Merge(&b.Sum)
		}
		next = append(next, n)
	}
	o.levels = append(o.levels, next)
}

// node is a place of a level; level 0 is the leaves.
func (o *overlay) node(level, i int) *column.Block {
	if level == 0 {
		return &o.leaves[i].Block
	}
	return &o.levels[level-1][i]
}

// between is the range of leaves that have points from…to.
func (o *overlay) between(from, to int64) (first, end int) {
	first = sort.Search(len(o.leaves), func(i int) bool { return o.leaves[i].Hi >= from })
	end = sort.Search(len(o.leaves), func(i int) bool { return o.leaves[i].Lo > to })
	return first, max(first, end)
}

// cover calls use with the fewest nodes that make up the leaves first…end and
// for which fits holds, and with the leaves where it does not.
func (o *overlay) cover(first, end int, fits func(*column.Block) bool, use func(b *column.Block, l *leaf)) {
	var visit func(level, i, width int)
	visit = func(level, i, width int) {
		lo, hi := i*width, min((i+1)*width, len(o.leaves))
		if lo >= end || hi <= first {
			return
		}
		n := o.node(level, i)
		switch {
		case level == 0:
			use(n, &o.leaves[i])
		case lo >= first && hi <= end && fits(n):
			use(n, nil)
		default:
			for k := i * fanOut; k < min((i+1)*fanOut, o.width(level-1)); k++ {
				visit(level-1, k, width/fanOut)
			}
		}
	}
	top, width := len(o.levels), 1
	for range top {
		width *= fanOut
	}
	for i := range o.width(top) {
		visit(top, i, width)
	}
}

func (o *overlay) width(level int) int {
	if level == 0 {
		return len(o.leaves)
	}
	return len(o.levels[level-1])
}
