package curve

import (
	"bytes"
	"cmp"
	"context"
	"iter"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
)

// readAxis is the place of an axis, -1 for time.
func readAxis(a model.Axis) (int, error) {
	if a == model.AxisTime {
		return -1, nil
	}
	if at := column.AxisIndex(a); at >= 0 {
		return at, nil
	}
	return 0, model.Errorf(model.CodeInvalid, "unknown axis %q", a)
}

// Scan answers [store.Reader.Scan].
func Scan(ctx context.Context, from Views, q store.ScanRequest) (*store.Rows, error) {
	axis, err := readAxis(q.Axis)
	if err != nil {
		return nil, err
	}
	if q.Gaps && axis >= 0 {
		axis += column.WithGaps
	}
	if q.Limit < 1 {
		return nil, model.Errorf(model.CodeInvalid, "a scan needs a limit of at least 1")
	}
	from = until{from, ctx}
	s := &scan{axis: axis, from: q.From, to: q.To, limit: q.Limit}
	if q.After != nil {
		s.after = &column.Place{Mark: column.Mark{X: q.After.Axis, Step: q.After.Step}, Time: q.After.TimeNs, Writer: q.After.Writer, Seq: q.After.Seq, Row: q.After.Row, Depth: q.After.Depth}
		s.from = max(s.from, q.After.Axis)
	}
	if len(q.Ancestors) > 0 {
		return scanFork(ctx, from, s, store.CurveRequest{Run: q.Run, Series: q.Series, Ancestors: q.Ancestors}, q.Attempts)
	}
	if s.View, err = from.View(q.Run, q.Series); err != nil {
		return nil, err
	}
	done, err := s.readTexts(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	found, more, err := s.collect(ctx, q.Attempts)
	if err != nil {
		return nil, err
	}
	return s.table(found, more), nil
}

// scan merges the pieces of a series along an axis.
type scan struct {
	*View
	axis     int
	from, to int64
	at       []int64 // nil: all x
	after    *column.Place
	limit    int
	depth    uint32
	docs     int // bytes of texts and documents that are found
}

// found is a row of the answer. A page has very many of them: what the rows of a piece
// have in common is kept once.
type found struct {
	x   int64
	in  *gathered
	row int32
}

// gathered is a piece that was read.
type gathered struct {
	*scan
	rows *column.Rows
	vals column.Values
}

func (f *found) place() column.Place {
	p := f.in.rows.Place(int(f.row), f.in.axis, f.in.Lineage.Writers)
	p.Depth = f.in.depth
	return p
}

func (f *found) compare(g *found) int {
	if f.x != g.x {
		return cmp.Compare(f.x, g.x)
	}
	return f.place().Compare(g.place())
}

// collect reads pieces in the order of their first x and stops as soon as no
// unread one can hold a row of the page.
func (s *scan) collect(ctx context.Context, sel store.Attempts) ([]found, bool, error) {
	return s.collectAll(ctx, s.windowed(sel))
}

func (s *scan) collectAll(ctx context.Context, windows iter.Seq[[]piece]) ([]found, bool, error) {
	var out []found
	for pieces := range windows {
		more, err := s.collectFrom(ctx, &out, pieces)
		if err != nil {
			return nil, false, err
		}
		if !more {
			break
		}
	}
	if err := ctx.Err(); err != nil { // pieces may be missing
		return nil, false, model.Errorf(model.CodeTimeout, "the scan was stopped: %v", err)
	}
	out = s.fit(out)
	if len(out) > s.limit {
		return out[:s.limit], true, nil
	}
	return out, false, nil
}

// pageWindow is how many overlapping groups a page reads at a time: most pages have fewer
// rows than one group.
const pageWindow = 2

// windowed gives the pieces of the range at once, or, where points that may be
// superseded would have to be read for all of it, window by window of x.
func (s *scan) windowed(sel store.Attempts) iter.Seq[[]piece] {
	return func(yield func([]piece) bool) {
		c := rules{View: s.View, chunks: slices.Clone(s.Chunks)}
		if plain := s.axis % column.WithGaps; !sel.All && plain == column.Episode && c.sweepAxis() == column.RLStep {
			s.oneByOne(sel, yield)
			return
		}
		if sel.All || sel.Number != 0 || !s.long() || c.sweepAxis() != s.axis {
			yield(s.inRange(s.pieces(sel)))
			return
		}
		chunks := slices.DeleteFunc(c.chunks, func(c column.Chunk) bool {
			lo, hi := c.Group.Extent().Span(s.axis)
			return hi < s.from || lo > s.to
		})
		for _, cluster := range overlapping(chunks, s.axis) {
			for lo, hi := range windows(cluster, s.axis, pageWindow) {
				if !yield(s.readableBetween(cluster, lo, hi)) {
					return
				}
			}
		}
	}
}

// oneByOne gives the pieces of the range in their order, each when it is asked for. Groups
// of RL meet their neighbours at nearly every end: taken together, as where they may
// conflict directly or through others, each page would compare all points of the series.
// But points are the same only where all their axes are, so that what a group keeps is
// decided by it and by the groups that it meets itself.
func (s *scan) oneByOne(sel store.Attempts, yield func([]piece) bool) {
	c := rules{View: s.View, only: sel.Number}
	c.chunks = slices.DeleteFunc(slices.Clone(s.Chunks), func(ch column.Chunk) bool { return !c.takes(ch.Group.Extent()) })
	all := make([]piece, len(c.chunks))
	for i, ch := range c.chunks {
		all[i] = piece{Chunk: ch}
	}
	for _, p := range s.inRange(all) {
		near := []column.Chunk{p.Chunk}
		for _, ch := range c.chunks {
			if ch != p.Chunk && c.mayConflict(p.Group.Extent(), ch.Group.Extent()) {
				near = append(near, ch)
			}
		}
		for _, one := range c.resolve(near) {
			if one.Chunk == p.Chunk && !yield([]piece{one}) {
				return
			}
		}
	}
}

// readableBetween is the pieces of a range, without rows outside of it.
func (s *scan) readableBetween(chunks []column.Chunk, lo, hi int64) []piece {
	pieces := s.inRange(s.resolveBetween(chunks, s.axis, lo, hi))
	kept := pieces[:0]
	for _, p := range pieces {
		if s.restrict(&p, lo, hi) {
			kept = append(kept, p)
		}
	}
	return kept
}

// restrict leaves out the rows outside a range; false when it cannot be read.
func (s *scan) restrict(p *piece, lo, hi int64) bool {
	if from, to := p.Group.Extent().Span(s.axis); from >= lo && to <= hi {
		return true
	}
	if p.rows == nil {
		r, err := p.Group.Rows()
		if err != nil {
			s.lost(err)
			return false
		}
		p.rows = r
	}
	xs, keep := p.rows.X(s.axis), []int32{}
	for _, i := range p.picked(p.rows.Len()) {
		if xs[i] >= lo && xs[i] <= hi {
			keep = append(keep, i)
		}
	}
	p.keep = keep
	return true
}

// collectFrom reads pieces in the order of their first x; more is false when no
// later one can hold a row of the page.
func (s *scan) collectFrom(ctx context.Context, out *[]found, pieces []piece) (more bool, err error) {
	if len(*out) == 0 {
		*out = make([]found, 0, s.most(pieces)) // at once: growing takes both the old and the new
	}
	for i := range pieces {
		if err := ctx.Err(); err != nil {
			return false, model.Errorf(model.CodeTimeout, "the scan was stopped: %v", err)
		}
		lo, _ := pieces[i].Group.Extent().Reach(s.axis)
		if len(*out) > s.limit && settled(*out, lo) > s.limit {
			return false, nil
		}
		if *out = s.gather(*out, &pieces[i]); s.docs > 2*s.Limits.Page {
			*out = s.fit(*out)
		}
		if len(*out) > 2*s.limit+1 {
			*out = s.first(*out)
		}
	}
	return true, nil
}

// most is how many rows a page gathers at most where no two pieces overlap and each is in
// order, with one row at each x.
func (s *scan) most(pieces []piece) (n int) {
	wide := max(1, uint64(s.to)-uint64(s.from))
	if s.at != nil {
		wide = min(wide, uint64(len(s.at)))
	}
	for i := 0; i < len(pieces) && n <= s.limit; i++ {
		rows := len(pieces[i].keep)
		if pieces[i].whole() {
			rows = pieces[i].Group.Extent().Rows
		}
		n += int(min(uint64(rows), uint64(s.limit)+1, wide))
	}
	return n
}

// first leaves out the rows that cannot be of the page. Where all pieces reach over the
// same x, as the steps of episodes do, a page would otherwise sort all points of the series.
func (s *scan) first(rows []found) []found {
	rows = s.fit(rows)
	if len(rows) <= s.limit {
		return rows
	}
	clear(rows[s.limit+1:])
	s.to = min(s.to, rows[s.limit].x)
	return rows[:s.limit+1]
}

// fit sorts rows, and ends the page where its texts and documents are long enough.
func (s *scan) fit(rows []found) []found {
	slices.SortFunc(rows, func(a, b found) int { return a.compare(&b) })
	s.docs = 0
	for i := range rows {
		if s.docs += rows[i].bytes(); s.docs > s.Limits.Page && i > 0 && i < s.limit {
			s.limit = i
			clear(rows[i+1:])
			return rows[:i+1]
		}
	}
	return rows
}

func (f *found) bytes() int {
	if column.Numeric(f.in.vals.Kind) {
		return 0
	}
	return len(f.in.vals.Docs[f.row])
}

// settled counts the rows in front of everything at or after a mark.
func settled(rows []found, at column.Mark) (n int) {
	for i := range rows {
		if f := &rows[i]; f.x < at.X || f.x == at.X && f.in.rows.Mark(int(f.row), f.in.axis).Step < at.Step {
			n++
		}
	}
	return n
}

func (s *scan) inRange(pieces []piece) []piece {
	out := pieces[:0]
	for _, p := range pieces {
		if !p.OnAxis(s.axis) {
			continue
		}
		lo, hi := p.Group.Extent().Reach(s.axis)
		if hi.X >= s.from && lo.X <= s.to && (s.after == nil || hi.Compare(s.after.Mark) >= 0) {
			out = append(out, p)
		}
	}
	slices.SortStableFunc(out, func(a, b piece) int {
		alo, _ := a.Group.Extent().Reach(s.axis)
		blo, _ := b.Group.Extent().Reach(s.axis)
		return alo.Compare(blo)
	})
	return out
}

func (s *scan) gather(out []found, p *piece) []found {
	r, vals, ok := s.read(p)
	if !ok {
		return out
	}
	picked, xs, in := p.picked(r.Len()), r.X(s.axis), &gathered{s, r, vals}
	inOrder := slices.IsSortedFunc(picked, func(i, k int32) int { return cmp.Compare(xs[i], xs[k]) })
	if s.at != nil {
		picked = s.picksAt(picked, xs, inOrder)
	} else if inOrder { // a group has many pages of rows: without this, each would take the memory of all that follow it
		first, _ := slices.BinarySearchFunc(picked, s.from, func(i int32, x int64) int { return cmp.Compare(xs[i], x) })
		picked = picked[first:]
	}
	taken, last := 0, int64(0)
	for _, i := range picked {
		f := found{xs[i], in, i}
		if inOrder && (f.x > s.to || taken > s.limit && f.x > last) {
			break
		}
		if f.x < s.from || f.x > s.to || s.after != nil && f.x <= s.after.X && f.place().Compare(*s.after) <= 0 {
			continue
		}
		out = append(out, f)
		taken, last = taken+1, f.x
		s.docs += f.bytes()
	}
	return out
}

// table lays rows out by column.
func (v *View) table(list []found, more bool) *store.Rows {
	out := &store.Rows{Values: model.Column{Series: v.Series.Key(), Kind: v.Series.Kind}}
	for a, name := range model.Axes() {
		if v.Mask.Has(a) {
			column, has := axisColumn(list, a)
			out.Axes = append(out.Axes, model.AxisColumn{Axis: name, Values: column})
			out.Has = append(out.Has, has)
		}
	}
	n := len(list)
	if v.Series.Kind == model.KindInt {
		out.Values.Ints = make([]int64, 0, n)
	}
	out.TimeNs, out.Attempt, out.Writer, out.Seq = make([]int64, 0, n), make([]uint32, 0, n), make([]model.WriterID, 0, n), make([]uint64, 0, n)
	if v.Series.Kind == model.KindFloat {
		out.Values.Floats = make([]float64, 0, n)
	}
	for i := range list {
		f := &list[i]
		rows, source := f.in.rows, f.in.rows.Source[f.row]
		out.TimeNs = append(out.TimeNs, rows.Time[f.row])
		out.Attempt = append(out.Attempt, f.in.Lineage.of[source].attempt)
		out.Writer = append(out.Writer, f.in.Lineage.Writers[source])
		out.Seq = append(out.Seq, rows.Seq[f.row])
		appendValue(&out.Values, f)
	}
	if more {
		p := list[len(list)-1].place()
		out.Next = &store.Position{Axis: p.X, Step: p.Step, TimeNs: p.Time, Writer: p.Writer, Seq: p.Seq, Row: p.Row, Depth: p.Depth}
	}
	return out
}

// axisColumn is an axis of the rows; has is nil when every row has it.
func axisColumn(list []found, axis int) (column []int64, has []bool) {
	column = make([]int64, len(list))
	gaps := false
	has = make([]bool, len(list))
	for i, f := range list {
		if has[i] = f.in.rows.Mask.Has(axis); has[i] {
			column[i] = f.in.rows.Axes[axis][f.row]
		}
		gaps = gaps || !has[i]
	}
	if !gaps {
		return column, nil
	}
	return column, has
}

func appendValue(c *model.Column, f *found) {
	switch v := &f.in.vals; c.Kind {
	case model.KindFloat:
		c.Floats = append(c.Floats, v.Floats[f.row])
	case model.KindInt:
		c.Ints = append(c.Ints, v.Ints[f.row])
	case model.KindText:
		c.Texts = append(c.Texts, string(v.Docs[f.row]))
	default:
		c.Docs = append(c.Docs, bytes.Clone(v.Docs[f.row])) // what it lies in may be much longer
	}
}
