package curve

import (
	"cmp"
	"context"
	"math"
	"math/bits"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
)

const maxBuckets = 100_000

// Buckets answers [store.Reader.Buckets].
func Buckets(ctx context.Context, from Views, q store.BucketsRequest) ([]store.Bucket, error) {
	axis, err := readAxis(q.Axis)
	if err != nil {
		return nil, err
	}
	if q.N < 1 || q.N > maxBuckets {
		return nil, model.Errorf(model.CodeInvalid, "a read may ask for 1 to %d buckets, not %d", maxBuckets, q.N)
	}
	from = until{from, ctx}
	b := &bucketing{scan: scan{axis: axis, from: q.From, to: q.To}, n: uint64(q.N)}
	if q.Grid {
		b.grid, b.lo, b.hi = true, q.From, q.To
	}
	if len(q.Ancestors) > 0 {
		return bucketFork(ctx, from, b, store.CurveRequest{Run: q.Run, Series: q.Series, Ancestors: q.Ancestors}, q.Attempts)
	}
	if b.View, err = from.View(q.Run, q.Series); err != nil {
		return nil, err
	}
	if err := b.numeric(); err != nil {
		return nil, err
	}
	return b.fill(ctx, b.find(q.Attempts))
}

func (v *View) numeric() error {
	if column.Numeric(v.Series.Kind) {
		return nil
	}
	return model.Errorf(model.CodeInvalid, "series %s holds %s, which has no buckets", v.Series.Key().Metric, v.Series.Kind)
}

// bucketing spreads spans over at most n cells of equal width. A span is a
// point or a stored summary; a summary is used where it is not wider than a
// cell, so no bucket becomes wider than two.
type bucketing struct {
	scan
	n      uint64
	grid   bool  // the cells are those of from…to
	lo, hi int64 // of the points that are read, or of the grid
	seen   bool
	onX    []column.Chunk // those that have the axis, when asked for
}

// span is a summary of the points between lo and hi, or a piece to be read.
type span struct {
	lo, hi int64
	sum    column.Aggregate
	known  bool
	piece  piece
	of     *bucketing // of the ancestor that has it; nil for the series itself
}

// find is the spans of a selection; it takes in their range.
func (b *bucketing) find(sel store.Attempts) []span {
	spans, ok := b.charted(sel)
	if !ok {
		spans = b.spans(b.inRange(b.pieces(sel)))
		b.reach(spans)
	}
	return spans
}

// fill spreads spans over the cells.
func (b *bucketing) fill(ctx context.Context, spans []span) ([]store.Bucket, error) {
	if err := ctx.Err(); err != nil { // spans may be missing
		return nil, model.Errorf(model.CodeTimeout, "the read was stopped: %v", err)
	}
	if len(spans) == 0 {
		return []store.Bucket{}, nil
	}
	slices.SortStableFunc(spans, func(x, y span) int { return cmp.Compare(x.lo, y.lo) })
	cells := b.newCells()
	reach, behind := int64(0), false // the largest hi of the spans in front
	for i := range spans {
		if err := ctx.Err(); err != nil {
			return nil, model.Errorf(model.CodeTimeout, "the read was stopped: %v", err)
		}
		s, of := &spans[i], b
		if s.of != nil {
			of = s.of
		}
		alone := (!behind || s.lo > reach) && (i+1 == len(spans) || spans[i+1].lo > s.hi)
		switch {
		case alone && s.known && b.fits(s.lo, s.hi):
			of.add(cells, s.lo, s.hi, &s.sum)
		case alone && s.known && of.blocks(cells, s):
		default:
			of.points(cells, s)
		}
		if !behind || s.hi > reach {
			reach, behind = s.hi, true
		}
	}
	return cells.buckets(b.Series.Kind), nil
}

// spans turns pieces into spans with exact ends.
func (b *bucketing) spans(pieces []piece) []span {
	var out []span
	for _, p := range pieces {
		s := span{piece: p}
		s.lo, s.hi = p.Group.Extent().Span(b.axis)
		if sum, ok := p.Group.Summary(p.Col); ok && p.whole() && s.lo >= b.from && s.hi <= b.to {
			s.sum, s.known = sum, true
			out = append(out, s)
			continue
		}
		if b.narrow(&s) {
			out = append(out, s)
		}
	}
	return out
}

// reach widens the range of what is read.
func (b *bucketing) reach(spans []span) {
	for i := range spans {
		b.see(spans[i].lo, spans[i].hi)
	}
}

func (b *bucketing) see(lo, hi int64) {
	if b.grid {
		return
	}
	if !b.seen {
		b.lo, b.hi, b.seen = lo, hi, true
	}
	b.lo, b.hi = min(b.lo, lo), max(b.hi, hi)
}

// narrow finds the ends of the rows that are read; false when there are none.
func (b *bucketing) narrow(s *span) bool {
	r := s.piece.rows
	if r == nil {
		var err error
		if r, err = s.piece.Group.Rows(); err != nil {
			b.lost(err)
			return false
		}
		s.piece.rows = r
	}
	s.lo, s.hi = math.MaxInt64, math.MinInt64
	xs, found := r.X(b.axis), false
	for _, i := range s.piece.picked(r.Len()) {
		if x := xs[i]; x >= b.from && x <= b.to {
			s.lo, s.hi, found = min(s.lo, x), max(s.hi, x), true
		}
	}
	return found
}

// blocks adds a wide span by its stored blocks; false when it cannot.
func (b *bucketing) blocks(cells *cells, s *span) bool {
	g, ok := s.piece.Group.(stored)
	if !ok {
		return false
	}
	list, err := g.BlockSums(s.piece.Col, b.axis)
	if err != nil {
		b.lost(err)
		return false
	}
	for i := range list {
		if !b.fits(list[i].Lo, list[i].Hi) {
			return false
		}
	}
	for i := range list {
		b.add(cells, list[i].Lo, list[i].Hi, &list[i].Sum)
	}
	return len(list) > 0
}

// fits: not wider than a cell; of a grid within one, or so narrow that none can tell.
func (b *bucketing) fits(lo, hi int64) bool {
	if b.grid && uint64(hi-lo) > uint64(b.hi-b.lo)/b.n/4 {
		return b.cell(lo) == b.cell(hi)
	}
	return uint64(hi-lo) <= uint64(b.hi-b.lo)/b.n
}

func (b *bucketing) points(cells *cells, s *span) {
	xs, vals, ok := b.plot(&s.piece)
	switch {
	case !ok:
	case s.piece.whole() && slices.IsSorted(xs):
		b.rising(cells, xs, &vals)
	default:
		b.scattered(cells, &s.piece, xs, &vals)
	}
}

// rising adds the points of a whole piece cell by cell: their x rise.
func (b *bucketing) rising(cells *cells, xs []int64, vals *column.Values) {
	at, _ := slices.BinarySearch(xs, b.from)
	for at < len(xs) && xs[at] <= b.to {
		place := b.cell(xs[at])
		until, end := min(b.to, b.lastOf(place)), at+1
		for end < len(xs) && xs[end] <= until {
			end++
		}
		into := cells.find(place, xs[at])
		into.lo, into.hi = min(into.lo, xs[at]), max(into.hi, xs[end-1])
		into.sum.AddRows(vals, at, end)
		if b.depth > 0 {
			into.inherited += uint64(end - at)
		}
		at = end
	}
}

// scattered adds points one by one.
func (b *bucketing) scattered(cells *cells, p *piece, xs []int64, vals *column.Values) {
	at, until := 0, int64(0) // the cell, and the last x of it
	var into *cell
	for _, i := range p.picked(len(xs)) {
		x := xs[i]
		if x < b.from || x > b.to {
			continue
		}
		if into == nil || x > until || x < into.lo && b.cell(x) != at {
			at = b.cell(x)
			into, until = cells.find(at, x), b.lastOf(at)
		}
		into.lo, into.hi = min(into.lo, x), max(into.hi, x)
		into.sum.AddRow(vals, int(i))
		if b.depth > 0 {
			into.inherited++
		}
	}
}

// plot reads the x and the values of a piece, and of a whole group nothing else.
func (s *scan) plot(p *piece) (xs []int64, vals column.Values, ok bool) {
	g, flushed := p.Group.(stored)
	if !flushed || p.rows != nil {
		r, vals, ok := s.read(p)
		if !ok {
			return nil, column.Values{}, false
		}
		return r.X(s.axis), vals, true
	}
	xs, err := g.Xs(s.axis)
	if err == nil {
		vals, err = g.Values(p.Col)
	}
	if err != nil {
		s.lost(err)
		return nil, column.Values{}, false
	}
	return xs, vals, true
}

// lastOf is the last x of a cell, or one before it where that is past the end.
func (b *bucketing) lastOf(place int) int64 {
	width := uint64(b.hi-b.lo) + 1
	if width == 0 || uint64(place)+1 >= b.n {
		return b.hi
	}
	// The least x of the next cell is lo + ceil((place+1)·width / n).
	high, low := bits.Mul64(uint64(place)+1, width)
	q, rest := bits.Div64(high, low, b.n)
	if rest > 0 {
		q++
	}
	return b.lo + int64(q-1)
}

// cell is floor((x-lo)·n / (hi-lo+1)), exact over the whole of int64.
func (b *bucketing) cell(x int64) int {
	width := uint64(b.hi-b.lo) + 1
	high, low := bits.Mul64(uint64(x-b.lo), b.n)
	if width == 0 { // 2^64
		return int(high)
	}
	q, _ := bits.Div64(high, low, width)
	return int(q)
}

// cells collects buckets by place, dense when there are few.
type cells struct {
	at map[int]int
	by []cell
}

type cell struct {
	place     int
	lo, hi    int64
	sum       column.Aggregate
	inherited uint64
}

func (b *bucketing) newCells() *cells { return &cells{at: map[int]int{}} }

// find returns a cell, usually the one that was used last.
func (c *cells) find(place int, x int64) *cell {
	if n := len(c.by); n > 0 && c.by[n-1].place == place {
		return &c.by[n-1]
	}
	i, ok := c.at[place]
	if !ok {
		i = len(c.by)
		c.at[place] = i
		c.by = append(c.by, cell{place: place, lo: x, hi: x, sum: column.EmptyAggregate()})
	}
	return &c.by[i]
}

func (b *bucketing) add(c *cells, lo, hi int64, sum *column.Aggregate) {
	place := lo
	if b.grid {
		place += int64(uint64(hi-lo) / 2)
	}
	at := c.find(b.cell(place), lo)
	at.lo, at.hi = min(at.lo, lo), max(at.hi, hi)
	at.sum.Merge(sum)
	if b.depth > 0 {
		at.inherited += sum.Count + sum.NaN + sum.PosInf + sum.NegInf
	}
}

func (c *cells) buckets(kind model.Kind) []store.Bucket {
	slices.SortFunc(c.by, func(a, b cell) int { return cmp.Compare(a.place, b.place) })
	out := make([]store.Bucket, 0, len(c.by))
	for i := range c.by {
		s := &c.by[i].sum
		b := store.Bucket{Lo: c.by[i].lo, Hi: c.by[i].hi, Count: s.Count, NaN: s.NaN, PosInf: s.PosInf, NegInf: s.NegInf, Inherited: c.by[i].inherited}
		if s.Count > 0 {
			b.Min, b.Max, b.Sum, b.Excess = s.Min, s.Max, s.Sum, s.Excess
			if kind == model.KindInt {
				b.Min, b.Max, b.MinInt, b.MaxInt = float64(s.Least), float64(s.Most), s.Least, s.Most
			}
		}
		out = append(out, b)
	}
	return out
}
