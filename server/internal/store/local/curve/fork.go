package curve

import (
	"cmp"
	"context"
	"iter"
	"math"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
)

// branch is one run's part in the curve of a fork.
type branch struct {
	*View
	depth uint32 // 0: the run itself, which is not cut
	upTo  int64
	near  []*branch // those that go before it
	steps *[2]stepRange
	left  []piece
	found bool // left is known
}

// stepRange bounds the steps of a branch: of points told apart by the step, and
// of those of RL.
type stepRange struct {
	lo, hi int64
	has    bool
}

func rlIndex(m column.AxisSet) int {
	if m.RL() {
		return 1
	}
	return 0
}

// branches are a series and what it inherits, nearest first.
func branches(from Views, q store.CurveRequest) ([]*branch, error) {
	var out []*branch
	add := func(run model.RunID, series store.SeriesID, depth int, upTo int64) error {
		v, err := from.View(run, series)
		if err != nil {
			return err
		}
		if len(out) > 0 && (v.Series.Kind != out[0].Series.Kind || v.Series.Text != out[0].Series.Text) {
			return model.Errorf(model.CodeInvalid, "series %s of run %s is not the one that it inherits", out[0].Series.Key().Metric, out[0].Run)
		}
		out = append(out, &branch{View: v, depth: uint32(depth), upTo: upTo, near: slices.Clone(out)})
		return nil
	}
	if !q.Run.IsZero() {
		if err := add(q.Run, q.Series, 0, 0); err != nil {
			return nil, err
		}
	}
	for i, a := range q.Ancestors {
		if err := add(a.Run, a.Series, i+1, a.UpTo); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// stepsOf bounds what the branch may have, cut as it is.
func (b *branch) stepsOf() *[2]stepRange {
	if b.steps != nil {
		return b.steps
	}
	b.steps = &[2]stepRange{}
	for _, c := range b.Chunks {
		e := c.Group.Extent()
		if !e.Mask.Has(column.Step) || b.depth > 0 && e.Lo[e.Mask.Cut()] > b.upTo {
			continue
		}
		s := &b.steps[rlIndex(e.Mask)]
		if !s.has {
			*s = stepRange{math.MaxInt64, math.MinInt64, true}
		}
		s.lo, s.hi = min(s.lo, e.Lo[column.Step]), max(s.hi, b.lastStep(e))
	}
	return b.steps
}

// lastStep bounds the steps of a group that are not cut off.
func (b *branch) lastStep(e *column.Extent) int64 {
	if b.depth > 0 && e.Mask.Cut() == column.Step {
		return min(e.Hi[column.Step], b.upTo)
	}
	return e.Hi[column.Step]
}

// meets: a nearer branch may have a point that replaces one of the group.
func (b *branch) meets(e *column.Extent) bool {
	return slices.ContainsFunc(b.near, func(n *branch) bool {
		s := &n.stepsOf()[rlIndex(e.Mask)]
		return s.has && s.lo <= b.lastStep(e) && e.Lo[column.Step] <= s.hi
	})
}

// inherits judges a group of an ancestor.
func (b *branch) inherits(e *column.Extent) verdict {
	cut := e.Mask.Cut()
	switch {
	case b.depth == 0:
		return keepAll
	case cut < 0 || e.Lo[cut] > b.upTo:
		return dropAll
	case e.Hi[cut] > b.upTo || b.meets(e):
		return lookInside
	}
	return keepAll
}

// whole: every point of the branch's curve is part of the fork's.
func (b *branch) whole() bool {
	return !slices.ContainsFunc(b.Chunks, func(c column.Chunk) bool { return b.inherits(c.Group.Extent()) != keepAll })
}

// pieces is what is left of the branch's curve.
func (b *branch) pieces() []piece {
	if b.found {
		return slices.Clone(b.left)
	}
	var taken map[pointKey]bool
	for _, p := range b.View.pieces(store.Attempts{}) {
		switch b.inherits(p.Group.Extent()) {
		case dropAll:
			continue
		case lookInside:
			if taken == nil {
				taken = b.taken()
			}
			if !b.cut(&p, taken) {
				continue
			}
		}
		b.left = append(b.left, p)
	}
	b.found = true
	return slices.Clone(b.left)
}

// taken are the points of nearer branches that may replace some of this one.
func (b *branch) taken() map[pointKey]bool {
	out := map[pointKey]bool{}
	for _, n := range b.near {
		for _, p := range n.pieces() {
			e := p.Group.Extent()
			s := &b.stepsOf()[rlIndex(e.Mask)]
			if !e.Mask.Has(column.Step) || !s.has || e.Lo[column.Step] > s.hi || n.lastStep(e) < s.lo {
				continue
			}
			r, ok := n.rowsOf(&p)
			if !ok {
				continue
			}
			for _, i := range p.picked(r.Len()) {
				if key, ok := attemptKey(r, int(i)); ok {
					out[key] = true
				}
			}
		}
	}
	return out
}

// rowsOf loads the rows of a piece; false when they are damaged.
func (v *View) rowsOf(p *piece) (*column.Rows, bool) {
	if p.rows == nil {
		r, err := p.Group.Rows()
		if err != nil {
			v.lost(err)
			return nil, false
		}
		p.rows = r
	}
	return p.rows, true
}

// cut leaves the inherited rows of a piece that has a step; false when there are
// none.
func (b *branch) cut(p *piece, taken map[pointKey]bool) bool {
	r, ok := b.rowsOf(p)
	if !ok {
		return false
	}
	cut, keep := r.Mask.Cut(), []int32{}
	for _, i := range p.picked(r.Len()) {
		if key, _ := attemptKey(r, int(i)); r.Axes[cut][i] <= b.upTo && !taken[key] {
			keep = append(keep, i)
		}
	}
	if len(keep) < r.Len() {
		p.keep = keep
	}
	return len(keep) > 0
}

// straight: along the axis the branch ends at an x, and nothing else is cut off.
func (b *branch) straight(axis int) (to int64, ok bool) {
	to = math.MaxInt64
	if b.depth == 0 {
		return to, true
	}
	for _, c := range b.Chunks {
		e := c.Group.Extent()
		cut := e.Mask.Cut()
		switch {
		case !c.OnAxis(axis):
			continue
		case cut < 0 || b.meets(e):
			return 0, false
		case e.Hi[cut] > b.upTo && cut != axis:
			return 0, false
		case e.Hi[cut] > b.upTo:
			to = b.upTo
		}
	}
	// A group that is cut along another axis may go on behind this x.
	mixed := to < math.MaxInt64 && slices.ContainsFunc(b.Chunks, func(c column.Chunk) bool {
		return c.OnAxis(axis) && c.Group.Extent().Mask.Cut() != axis
	})
	return to, !mixed
}

// scanFork merges the branches of a fork along an axis.
func scanFork(ctx context.Context, from Views, s *scan, q store.CurveRequest, sel store.Attempts) (*store.Rows, error) {
	list, err := branchesOf(from, q, sel)
	if err != nil {
		return nil, err
	}
	s.View = list[0].View
	done, err := s.readTexts(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	var rows []found
	more, whole := false, *s.View
	var cut *column.Place // no page may go further: a branch has more texts there
	for _, b := range list {
		whole.Mask |= b.View.Mask
	}
	for _, b := range byReach(list, s.axis) {
		// What the page holds so far is settled in front of the branch.
		if lo, _, _ := b.reachOn(s.axis); len(rows) >= s.limit && lo > rows[s.limit-1].x && (more || len(rows) > s.limit) {
			break
		}
		if lo, _, _ := b.reachOn(s.axis); cut != nil && lo > cut.X {
			break
		}
		part := *s
		part.View, part.depth, part.docs = b.View, b.depth, 0
		some, rest, err := part.collectAll(ctx, b.along(&part))
		if err != nil {
			return nil, err
		}
		if rest && len(some) < s.limit && (cut == nil || some[len(some)-1].place().Compare(*cut) < 0) {
			end := some[len(some)-1].place()
			cut = &end
		}
		rows, more = append(rows, some...), more || rest
		if cut != nil {
			rows = slices.DeleteFunc(rows, func(f found) bool { return f.place().Compare(*cut) > 0 })
		}
		rows = s.fit(rows)
		rows = rows[:min(len(rows), s.limit+1)]
	}
	if len(rows) > s.limit {
		rows, more = rows[:s.limit], true
	}
	out := whole.table(rows, more)
	out.Depth = make([]uint32, len(rows))
	for i := range rows {
		out.Depth[i] = rows[i].in.depth
	}
	return out, nil
}

// byReach are the branches that have something on an axis, by where they begin.
func byReach(list []*branch, axis int) []*branch {
	out := slices.DeleteFunc(slices.Clone(list), func(b *branch) bool { _, _, ok := b.reachOn(axis); return !ok })
	slices.SortStableFunc(out, func(a, b *branch) int {
		alo, _, _ := a.reachOn(axis)
		blo, _, _ := b.reachOn(axis)
		return cmp.Compare(alo, blo)
	})
	return out
}

// branchesOf checks that the read is one that inherits.
func branchesOf(from Views, q store.CurveRequest, sel store.Attempts) ([]*branch, error) {
	if sel != (store.Attempts{}) {
		return nil, model.Errorf(model.CodeInvalid, "only a curve inherits, not an attempt")
	}
	return branches(from, q)
}

// along gives the pieces of a branch that a scan reads.
func (b *branch) along(s *scan) iter.Seq[[]piece] {
	if to, ok := b.straight(s.axis); ok {
		s.to = min(s.to, to)
		return s.windowed(store.Attempts{})
	}
	return func(yield func([]piece) bool) { yield(s.inRange(b.pieces())) }
}

// bucketFork spreads the branches of a fork over common cells.
func bucketFork(ctx context.Context, from Views, b *bucketing, q store.CurveRequest, sel store.Attempts) ([]store.Bucket, error) {
	list, err := branchesOf(from, q, sel)
	if err != nil {
		return nil, err
	}
	b.View = list[0].View
	if err := b.numeric(); err != nil {
		return nil, err
	}
	var spans []span
	var parts []*bucketing
	for _, one := range list {
		part := &bucketing{scan: scan{View: one.View, axis: b.axis, from: b.from, to: b.to, depth: one.depth}, n: b.n, grid: b.grid, lo: b.lo, hi: b.hi}
		for _, s := range one.spread(part, list) {
			s.of = part
			spans = append(spans, s)
		}
		if parts = append(parts, part); part.seen {
			b.see(part.lo, part.hi)
		}
	}
	for _, part := range parts {
		part.lo, part.hi = b.lo, b.hi
	}
	return b.fill(ctx, spans)
}

// spread is the spans of a branch. Summaries without rows behind them are for a
// branch that shares no x with another.
func (b *branch) spread(part *bucketing, list []*branch) []span {
	to, straight := b.straight(part.axis)
	if straight {
		part.to = min(part.to, to)
	}
	apart := !slices.ContainsFunc(list, func(o *branch) bool { return o != b && b.sharesX(o, part.axis) })
	if straight && apart {
		return part.find(store.Attempts{})
	}
	pieces := b.pieces()
	spans := part.spans(part.inRange(pieces))
	part.reach(spans)
	return spans
}

func (b *branch) sharesX(o *branch, axis int) bool {
	lo, hi, ok := b.reachOn(axis)
	olo, ohi, also := o.reachOn(axis)
	return ok && also && lo <= ohi && olo <= hi
}

// reachOn bounds the x of a branch.
func (b *branch) reachOn(axis int) (lo, hi int64, ok bool) {
	lo, hi = math.MaxInt64, math.MinInt64
	for _, c := range b.Chunks {
		if e := c.Group.Extent(); c.OnAxis(axis) && b.inherits(e) != dropAll {
			from, to := e.Span(axis)
			if b.depth > 0 && e.Mask.Cut() == axis {
				to = min(to, b.upTo)
			}
			lo, hi, ok = min(lo, from), max(hi, to), true
		}
	}
	return lo, hi, ok
}

// Describe answers [store.Reader.Curve].
func Describe(ctx context.Context, from Views, q store.CurveRequest) (store.Series, error) {
	list, err := branches(from, q)
	if err != nil {
		return store.Series{}, err
	}
	if len(list) == 0 {
		return store.Series{}, model.Errorf(model.CodeInvalid, "the curve is of no run")
	}
	out := store.Series{Key: list[0].Series.Key(), Kind: list[0].Series.Kind}
	total := &End{LastX: -1}
	var axes column.AxisSet
	last := list[0].View
	for _, b := range list {
		if err := ctx.Err(); err != nil {
			return out, model.Errorf(model.CodeTimeout, "the read was stopped: %v", err)
		}
		end := b.endOf()
		if total.join(end, b.depth) {
			last = b.View
		}
		if b.depth > 0 {
			out.Inherited += end.Count
			axes |= end.mask
			continue
		}
		axes |= b.Mask
		out.ID, out.Superseded = store.SeriesID(b.Series.ID), end.Stored-end.Count
	}
	if total.tell(&out, axes); out.Last != nil && !column.Numeric(out.Kind) {
		out.Last.Value, err = last.document(ctx, total)
	}
	return out, err
}

func (b *branch) endOf() *End {
	if b.whole() {
		return b.End()
	}
	out := &End{LastX: -1}
	out.addPieces(b.View, b.pieces())
	return out
}

// join takes in the end of another branch; better says that it is the end of all so far.
func (c *End) join(o *End, depth uint32) (better bool) {
	if o.Count == 0 {
		return false
	}
	if c.Count == 0 {
		c.MinTime, c.MaxTime = o.MinTime, o.MaxTime
	}
	c.MinTime, c.MaxTime = min(c.MinTime, o.MinTime), max(c.MaxTime, o.MaxTime)
	last := o.Last
	last.Depth = depth
	better = c.Count == 0 || o.LastX == column.Step && c.LastX != column.Step || o.LastX == c.LastX && last.Compare(c.Last) > 0
	if better {
		c.Last, c.LastX, c.Value = last, o.LastX, o.Value
	}
	c.Count += o.Count
	return better
}

// tell describes a curve by its end.
func (c *End) tell(out *store.Series, axes column.AxisSet) {
	for a, name := range model.Axes() {
		if axes.Has(a) {
			out.Axes = append(out.Axes, name)
		}
	}
	if out.Count = c.Count; c.Count == 0 {
		return
	}
	out.MinTimeNs, out.MaxTimeNs = c.MinTime, c.MaxTime
	out.Last = &store.Point{TimeNs: c.Last.Time, Value: c.Value}
	if c.LastX == column.Step {
		step := c.Last.X
		out.Last.Step = &step
	}
}
