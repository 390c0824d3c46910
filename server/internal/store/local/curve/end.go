package curve

import (
	"bytes"
	"context"
	"math"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
)

// End is what a series' list entry and its next step need: a summary of
// the curve, good for one version of the series.
type End struct {
	version, epoch       uint64
	Count, Stored        uint64
	mask                 column.AxisSet         // axes of the curve's points
	hi                   *[column.NumAxes]int64 // never written to: that of a group where it can be; nil when empty
	MinTime, MaxTime     int64                  // of the curve
	MinStored, MaxStored int64                  // of all stored points
	Last                 column.Place
	LastX                int          // axis of last: the step, or -1
	Value                store.Number // none of a text or a document, see document
	// sole is the source that wrote every point so far, in rows of one shape that
	// rose up to tail: later ones replace nothing. Only when known.
	known bool
	sole  uint32
	shape column.Shape
	tail  *column.SortKey
	// grown is how often rows went on where it ended since a read worked it out.
	grown uint8
}

// End returns the summary of a view. It is computed at most once per version and
// kept, but not that of a few points: it would be larger than the rest of the series.
func (v *View) End() *End {
	if old := v.Memo.Known(v.Version, v.Epoch); old != nil {
		return old
	}
	out := v.computeEnd()
	if len(v.Chunks) > 1 || out.Stored > fewPoints || out.Count < out.Stored {
		if v.Memo.last.Swap(out) == nil {
			v.Kept.add(endBytes)
		}
	}
	return out
}

// fewPoints of one group tell where the curve ends as they are.
const fewPoints = 16

func (v *View) computeEnd() *End {
	out := &End{version: v.Version, epoch: v.Epoch, LastX: -1}
	for _, c := range v.Chunks {
		out.store(c.Group.Extent())
	}
	if t := v.tallyOf(); t == nil || !t.endWith(v, out) {
		out.addPieces(v, v.pieces(store.Attempts{}))
	}
	if out.Count == out.Stored && len(v.Chunks) > v.InSegments {
		out.settle(v)
	}
	return out
}

// settle notes what later rows must be like to replace none of the points, of which
// nothing is superseded.
func (c *End) settle(v *View) {
	first := v.Chunks[0].Group.Extent()
	tail, src, shape := first.TopKey(), first.Sources[0], column.Shape{Mask: first.Mask, Mode: first.Mode}
	for _, ch := range v.Chunks {
		e := ch.Group.Extent()
		if len(e.Sources) > 1 || e.Sources[0] != src || (column.Shape{Mask: e.Mask, Mode: e.Mode}) != shape {
			return
		}
		if top := e.TopKey(); tail.Less(top) {
			tail = top
		}
	}
	c.known, c.sole, c.shape, c.tail = true, src, shape, &tail
}

// addPieces takes in what is left of groups.
func (c *End) addPieces(v *View, pieces []piece) {
	best, bestRow := -1, int32(0)
	for i := range pieces {
		if row, better := c.take(v, &pieces[i]); better {
			best, bestRow = i, row
		}
	}
	if best >= 0 {
		c.Value = v.valueAt(&pieces[best], bestRow)
	}
}

// take adds a piece; better says that its row is the last one so far.
func (c *End) take(v *View, p *piece) (row int32, better bool) {
	e := p.left(v)
	var keep *[column.NumAxes]int64
	if g, ok := p.Group.(stored); ok && p.whole() {
		keep = &g.Extent().Hi
	}
	return e.Last, c.merge(e, keep, v.Lineage)
}

// left is the extent of the rows of a piece.
func (p *piece) left(v *View) *column.Extent {
	e := p.Group.Extent()
	if p.whole() {
		return e
	}
	sub := column.Rows{Mask: e.Mask, Mode: e.Mode}
	sub.Add(p.rows, p.keep)
	kept := column.Measure(&sub, v.Lineage.Writers)
	kept.Last = p.keep[kept.Last]
	return &kept
}

// merge adds points that are all of the curve; better says that their last one
// is the last so far. keep is the extent's hi when it may be pointed to for as
// long as the series lives.
func (c *End) merge(e *column.Extent, keep *[column.NumAxes]int64, l *Lineage) (better bool) {
	if c.Count == 0 {
		c.MinTime, c.MaxTime = e.MinTime, e.MaxTime
	}
	c.MinTime, c.MaxTime = min(c.MinTime, e.MinTime), max(c.MaxTime, e.MaxTime)
	c.widenTo(e, keep)
	x := e.XAxis()
	at := e.LastPlace(l.Writers)
	better = c.Count == 0 || x == column.Step && c.LastX != column.Step || x == c.LastX && at.Compare(c.Last) > 0
	c.mask |= e.Mask
	c.Count += uint64(e.Rows)
	if better {
		c.Last, c.LastX = at, x
	}
	return better
}

// widenTo takes in the largest of each axis. Most often the later group has all
// of them, and its own can be pointed to.
func (c *End) widenTo(e *column.Extent, keep *[column.NumAxes]int64) {
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
func (c *End) store(e *column.Extent) {
	if c.Stored == 0 {
		c.MinStored, c.MaxStored = e.MinTime, e.MaxTime
	}
	c.MinStored, c.MaxStored = min(c.MinStored, e.MinTime), max(c.MaxStored, e.MaxTime)
	c.Stored += uint64(e.Rows)
}

// valueAt reads one number; whole chunks have their last one in the index.
func (v *View) valueAt(p *piece, row int32) store.Number {
	if !column.Numeric(v.Series.Kind) {
		return store.Number{}
	}
	if sum, ok := p.Group.Summary(p.Col); ok && row == p.Group.Extent().Last {
		return column.NumberOf(v.Series.Kind, sum.Last)
	}
	vals, err := p.Group.Values(p.Col)
	if err != nil {
		v.lost(err)
		return store.Number{Float: math.NaN()}
	}
	return vals.At(int(row))
}

// document reads the text or document with which a curve ends. It may be a thousand
// times as long as the rest of an end, so none is kept.
func (v *View) document(ctx context.Context, end *End) (out store.Number, err error) {
	done, err := v.readTexts(ctx)
	if err != nil {
		return out, err
	}
	defer done()
	for _, c := range v.Chunks {
		if !c.OnAxis(end.LastX) || !mayHold(c.Group.Extent(), end) {
			continue
		}
		if doc, ok := v.documentAt(c, &end.Last); ok {
			return store.Number{Doc: bytes.Clone(doc)}, nil
		}
	}
	return out, nil
}

func mayHold(e *column.Extent, end *End) bool {
	lo, hi := e.Span(end.LastX)
	return end.Last.X >= lo && end.Last.X <= hi && end.Last.Time >= e.MinTime && end.Last.Time <= e.MaxTime
}

// documentAt looks for a row in a group; what cannot be read is counted.
func (v *View) documentAt(c column.Chunk, at *column.Place) ([]byte, bool) {
	rows, err := c.Group.Rows()
	if err != nil {
		v.lost(err)
		return nil, false
	}
	for i := range rows.Len() {
		if rows.Time[i] != at.Time || rows.Seq[i] != at.Seq || uint32(rows.Arrival[i]) != at.Row {
			continue
		}
		vals, err := c.Group.Values(c.Col)
		if err != nil {
			v.lost(err)
			return nil, true
		}
		return vals.Docs[i], true
	}
	return nil, false
}

// Growth is what new rows mean to the series that they are of; the zero value with
// the rows is worked out when a series needs it.
type Growth struct {
	Rows    *column.Rows
	Lineage *Lineage

	known bool
	ext   column.Extent // of the rows
	src   uint32
	keyed bool
	first column.SortKey
	tail  *column.SortKey
	hi    *[column.NumAxes]int64
}

func (g *Growth) measure() {
	if g.known {
		return
	}
	g.known, g.ext, g.src = true, column.Measure(g.Rows, g.Lineage.Writers), g.Rows.Source[0]
	g.first, g.keyed = g.Rows.SortKey(0)
	tail, _ := g.Rows.SortKey(g.Rows.Len() - 1)
	hi := g.ext.Hi
	g.tail, g.hi = &tail, &hi // the ends of all series of the group point to them
}

// Known is the end of the curve at a version of the series and of the rules, nil
// when it has to be worked out.
func (m *Memo) Known(version, epoch uint64) *End {
	if end := m.last.Load(); end != nil && end.version == version && end.epoch == epoch {
		return end
	}
	return nil
}

// DropEnd forgets the end until the next read.
func (m *Memo) DropEnd() { m.last.Store(nil) }

// mostGrown is how often an end is kept current between two reads that work it out. A
// series that gets points a hundred times as often as it is read must not pay for each.
const mostGrown = 16

// Advance keeps the summary of a curve's end current when new rows, which made the
// version, only go on where it ended; else the next read computes it anew.
func (m *Memo) Advance(version, epoch uint64, g *Growth, v *column.Values) {
	old := m.last.Load()
	if old == nil || old.version != version-1 || old.epoch != epoch || old.grown == mostGrown {
		return
	}
	g.measure()
	if next := old.extended(g, v); next != nil {
		next.version, next.epoch, next.grown = version, epoch, old.grown+1
		m.last.Store(next)
	}
}

// extended is the summary after rows that go on where it ended, or nil when
// that is not sure: another source or shape, or a key that does not rise.
func (c *End) extended(g *Growth, v *column.Values) *End {
	if !g.ext.Distinct || g.Lineage.of[g.src].hidden {
		return nil
	}
	kind := column.Shape{Mask: g.ext.Mask, Mode: g.ext.Mode}
	if c.Stored > 0 && (!c.known || c.sole != g.src || c.shape != kind || g.keyed && !c.tail.Less(g.first)) {
		return nil
	}
	next := *c
	next.known, next.sole, next.tail, next.shape = true, g.src, g.tail, kind
	next.store(&g.ext)
	if next.merge(&g.ext, g.hi, g.Lineage) && column.Numeric(v.Kind) {
		next.Value = v.At(int(g.ext.Last))
	}
	return &next
}

// NextStep is 1 + the last step of the curve; of environment steps that of the
// key's episode, or of the points without one. 0 when there is none.
func (v *View) NextStep(key record.StartKey) int64 {
	if !key.Episodic && !(v.Series.Key().Scale == model.ScaleEnvironment && v.Mask.Has(column.Episode)) {
		end := v.End()
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
func (v *View) lastStepOf(key record.StartKey) (found bool, last int64) {
	near := *v
	near.Chunks = slices.DeleteFunc(slices.Clone(v.Chunks), func(c column.Chunk) bool { return apart(c.Group.Extent(), key) })
	for _, p := range near.pieces(store.Attempts{}) {
		e := p.Group.Extent()
		if !e.Mask.Has(column.Step) || e.Mask.Has(column.Episode) != key.Episodic || key.Episodic && !e.Spans(column.Episode, key.Episode) {
			continue
		}
		r := p.rows
		if r == nil {
			var err error
			if r, err = p.Group.Rows(); err != nil {
				v.lost(err)
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
