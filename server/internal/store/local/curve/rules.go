package curve

import (
	"cmp"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
)

// piece is a part of what a read selects: a whole chunk, or some rows of it.
type piece struct {
	column.Chunk
	rows *column.Rows // read already; nil for a whole chunk that was not needed yet
	keep []int32      // rows, nil for all
}

// whole says that the stored summary of the chunk holds.
func (p *piece) whole() bool { return p.keep == nil }

// select picks the points of a series that a read is about. Chunks that can
// hold no superseded point stay whole; the others are read and compared.
func (v *View) pieces(sel store.Attempts) []piece {
	if sel.All {
		out := make([]piece, len(v.Chunks))
		for i, c := range v.Chunks {
			out[i] = piece{Chunk: c}
		}
		return out
	}
	c := rules{View: v, only: sel.Number}
	for _, ch := range v.Chunks {
		if c.takes(ch.Group.Extent()) {
			c.chunks = append(c.chunks, ch)
		}
	}
	var out []piece
	for _, group := range c.components() {
		out = append(out, c.resolve(group)...)
	}
	return out
}

// rules applies the rules of uniqueness and attempts to some chunks.
type rules struct {
	*View
	only   uint32 // attempt number, 0 for the curve
	chunks []column.Chunk
}

func (c *rules) takes(e *column.Extent) bool {
	if c.only == 0 {
		return !c.gone(e)
	}
	return slices.ContainsFunc(e.Sources, func(s uint32) bool { return c.Lineage.of[s].attempt == c.only })
}

// gone: a later attempt resumed in front of all of a group. Its points replace
// none that this attempt does not hide as well, because under UniqueAxes only
// points of one attempt are the same.
func (v *View) gone(e *column.Extent) bool {
	cut := e.Mask.Cut()
	return e.Mode == model.UniqueAxes && cut >= 0 && !slices.ContainsFunc(e.Sources, func(s uint32) bool {
		return !v.Lineage.of[s].hidden || e.Lo[cut] < v.Lineage.of[s].hideFrom
	})
}

// mayConflict reports whether a point of one group could replace one of the
// other. It errs on the side of yes.
func (c *rules) mayConflict(a, b *column.Extent) bool {
	if c.only == 0 && attemptsMeet(a, b) && c.Lineage.mayHide(a.Sources, b.Sources) {
		return true
	}
	if a.Mode != b.Mode {
		return false
	}
	switch a.Mode {
	case model.UniqueTime:
		return a.Overlaps(b, -1)
	case model.UniqueStep:
		return a.Mask.Has(column.Step) && b.Mask.Has(column.Step) && a.Overlaps(b, column.Step)
	}
	return a.Mask == b.Mask && a.Mask != 0 && a.Meets(b) && c.Lineage.shareIdent(a.Sources, b.Sources)
}

// attemptsMeet: points of two attempts may have the same key.
func attemptsMeet(a, b *column.Extent) bool {
	if !a.Mask.Has(column.Step) || !b.Mask.Has(column.Step) || a.Mask.RL() != b.Mask.RL() {
		return false
	}
	if a.Mask.RL() {
		return a.Mask == b.Mask && a.Meets(b)
	}
	return a.Overlaps(b, column.Step)
}

// sweepAxis is an axis on which chunks must overlap to conflict: -1 is the
// time, -2 none.
func (c *rules) sweepAxis() int {
	rl, step, time, free := true, true, true, true
	var first *column.Extent
	if len(c.chunks) > 0 {
		first = c.chunks[0].Group.Extent()
	}
	for _, ch := range c.chunks {
		e := ch.Group.Extent()
		rl = rl && e.Mask.Has(column.RLStep) && e.Mode == model.UniqueAxes
		step = step && e.Mask.Has(column.Step) && e.Mode != model.UniqueTime
		time = time && e.Mode == model.UniqueTime && c.Lineage.oneAttempt(e.Sources) && c.Lineage.of[e.Sources[0]].attempt == c.Lineage.of[first.Sources[0]].attempt
		free = free && e.Mask == 0
	}
	switch {
	case rl:
		return column.RLStep
	case step:
		return column.Step
	case time, free:
		return -1
	}
	return -2
}

// components groups the chunks that may conflict, directly or through others.
func (c *rules) components() [][]column.Chunk {
	parent := make([]int, len(c.chunks))
	for i := range parent {
		parent[i] = i
	}
	find := func(i int) int {
		for parent[i] != i {
			parent[i] = parent[parent[i]]
			i = parent[i]
		}
		return i
	}
	axis := c.sweepAxis()
	if axis >= -1 {
		slices.SortStableFunc(c.chunks, func(a, b column.Chunk) int {
			alo, _ := a.Group.Extent().Span(axis)
			blo, _ := b.Group.Extent().Span(axis)
			return cmp.Compare(alo, blo)
		})
	}
	var active []int
	for i := range c.chunks {
		e := c.chunks[i].Group.Extent()
		keep := active[:0]
		for _, j := range active {
			o := c.chunks[j].Group.Extent()
			if axis >= -1 && !e.Overlaps(o, axis) {
				continue
			}
			keep = append(keep, j)
			if find(i) != find(j) && c.mayConflict(e, o) {
				parent[find(i)] = find(j)
			}
		}
		keep = append(keep, i)
		active = keep
	}
	return group(c.chunks, find)
}

func group(chunks []column.Chunk, find func(int) int) [][]column.Chunk {
	at := map[int]int{}
	var out [][]column.Chunk
	for i, ch := range chunks {
		root := find(i)
		k, ok := at[root]
		if !ok {
			k = len(out)
			at[root] = k
			out = append(out, nil)
		}
		out[k] = append(out[k], ch)
	}
	return out
}

// resolve returns the points of a component that are part of the curve.
func (c *rules) resolve(chunks []column.Chunk) []piece {
	if len(chunks) == 1 {
		switch c.judge(chunks[0].Group.Extent()) {
		case keepAll:
			return []piece{{Chunk: chunks[0]}}
		case dropAll:
			return nil
		}
	}
	loaded := make([]piece, 0, len(chunks))
	for _, ch := range chunks {
		if c.over() {
			return nil
		}
		r, err := ch.Group.Rows()
		if err != nil {
			c.lost(err)
			continue
		}
		loaded = append(loaded, piece{Chunk: ch, rows: r})
	}
	alive := c.unique(loaded)
	if c.only == 0 {
		c.hide(loaded, alive)
	}
	out := loaded[:0]
	for i, p := range loaded {
		p.keep = kept(alive[i])
		if p.keep == nil || len(p.keep) > 0 {
			out = append(out, p)
		}
	}
	return out
}

// kept lists the true places; nil when all are.
func kept(alive []bool) []int32 {
	out := make([]int32, 0, len(alive))
	for i, ok := range alive {
		if ok {
			out = append(out, int32(i))
		}
	}
	if len(out) == len(alive) {
		return nil
	}
	return out
}

type verdict int

const (
	lookInside verdict = iota
	keepAll
	dropAll
)

// judge decides about a chunk that conflicts with no other.
func (c *rules) judge(e *column.Extent) verdict {
	if !e.Distinct || !c.Lineage.oneAttempt(e.Sources) {
		return lookInside
	}
	src, cut := e.Sources[0], e.Mask.Cut()
	if c.only != 0 || cut < 0 || !c.Lineage.of[src].hidden || e.Hi[cut] < c.Lineage.of[src].hideFrom {
		return keepAll
	}
	if e.Lo[cut] >= c.Lineage.of[src].hideFrom {
		return dropAll
	}
	return lookInside
}

// pointKey makes points with equal keys the same point.
type pointKey struct {
	mode  model.Uniqueness
	mask  column.AxisSet
	ident uint32
	at    [column.NumAxes]int64
}

// uniqueKey is false for points that are never the same as another.
func (l *Lineage) uniqueKey(r *column.Rows, i int) (pointKey, bool) {
	key := pointKey{mode: r.Mode}
	switch r.Mode {
	case model.UniqueTime:
		key.at[0] = r.Time[i]
		return key, true
	case model.UniqueStep:
		if !r.Mask.Has(column.Step) {
			return key, false
		}
		key.at[0] = r.Axes[column.Step][i]
		return key, true
	}
	key.mask, key.ident = r.Mask, l.of[r.Source[i]].ident
	for a := range column.NumAxes {
		if r.Mask.Has(a) {
			key.at[a] = r.Axes[a][i]
		}
	}
	return key, r.Mask != 0
}

// attemptKey is false for points without a step.
func attemptKey(r *column.Rows, i int) (pointKey, bool) {
	if !r.Mask.Has(column.Step) {
		return pointKey{}, false
	}
	if !r.Mask.RL() {
		return pointKey{at: [column.NumAxes]int64{r.Axes[column.Step][i]}}, true
	}
	key := pointKey{mask: r.Mask}
	for a := range column.NumAxes {
		if r.Mask.Has(a) {
			key.at[a] = r.Axes[a][i]
		}
	}
	return key, true
}

type rowRef struct {
	piece int
	row   int32
}

// unique marks the latest of each point, within the selected attempt if any.
func (c *rules) unique(loaded []piece) [][]bool {
	if axis, ok := identity(loaded); ok {
		return c.latestAt(loaded, axis)
	}
	return c.latest(loaded)
}

// identity is the axis that tells points apart, -1 for the time, where it is one axis.
func identity(loaded []piece) (axis int, ok bool) {
	if len(loaded) == 0 {
		return 0, false
	}
	mode := loaded[0].rows.Mode
	for i := range loaded {
		if r := loaded[i].rows; r.Mode != mode || mode == model.UniqueStep && !r.Mask.Has(column.Step) {
			return 0, false
		}
	}
	switch mode {
	case model.UniqueTime:
		return -1, true
	case model.UniqueStep:
		return column.Step, true
	}
	return 0, false
}

// latestAt is unique where points of one x are the same. It goes through the rows by
// rising x, whichever piece they are in, and has to remember one row alone.
func (c *rules) latestAt(loaded []piece, axis int) [][]bool {
	alive := make([][]bool, len(loaded))
	var rows heads
	for p := range loaded {
		alive[p] = make([]bool, loaded[p].rows.Len())
		rows.add(p, loaded[p].rows.X(axis))
	}
	var last int64
	var best *int64 // the arrival of the row that stands for last
	var stands *bool
	for len(rows) > 0 {
		x, p, i := rows.next()
		r := loaded[p].rows
		if c.only != 0 && c.Lineage.of[r.Source[i]].attempt != c.only {
			continue
		}
		if best != nil && x == last {
			if *best > r.Arrival[i] {
				continue
			}
			*stands = false
		}
		alive[p][i] = true
		last, best, stands = x, &r.Arrival[i], &alive[p][i]
	}
	return alive
}

// heads is a heap of pieces by the x of the next row of each.
type heads []head

type head struct {
	x     int64
	xs    []int64
	order []int32 // of the rows by x; nil when they rise
	at    int
	piece int
}

func (h *heads) add(piece int, xs []int64) {
	if len(xs) == 0 {
		return
	}
	n := head{xs: xs, piece: piece}
	if !slices.IsSorted(xs) {
		n.order = column.UpTo(0, len(xs))
		slices.SortStableFunc(n.order, func(a, b int32) int { return cmp.Compare(xs[a], xs[b]) })
	}
	n.x = xs[n.row()]
	*h = append(*h, n)
	for i := len(*h) - 1; i > 0 && (*h)[i].x < (*h)[(i-1)/2].x; i = (i - 1) / 2 {
		(*h)[i], (*h)[(i-1)/2] = (*h)[(i-1)/2], (*h)[i]
	}
}

func (n *head) row() int {
	if n.order != nil {
		return int(n.order[n.at])
	}
	return n.at
}

// next takes the row with the least x.
func (h *heads) next() (x int64, piece, row int) {
	top := &(*h)[0]
	x, piece, row = top.x, top.piece, top.row()
	if top.at++; top.at < len(top.xs) {
		top.x = top.xs[top.row()]
	} else {
		n := len(*h) - 1
		(*h)[0] = (*h)[n]
		*h = (*h)[:n]
	}
	h.sink()
	return x, piece, row
}

// sink brings the first to its place.
func (h heads) sink() {
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h); child++ {
			if h[child].x < h[least].x {
				least = child
			}
		}
		if least == i {
			return
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}

// latest is unique where points are told apart by more than one axis. Rows with the key
// of the row before them are common: they are not looked up.
func (c *rules) latest(loaded []piece) [][]bool {
	alive := make([][]bool, len(loaded))
	places, winners := map[pointKey]int{}, []rowRef{}
	var last pointKey
	at := -1 // the place of last
	for p := range loaded {
		r := loaded[p].rows
		alive[p] = make([]bool, r.Len())
		for i := range r.Len() {
			if c.only != 0 && c.Lineage.of[r.Source[i]].attempt != c.only {
				continue
			}
			alive[p][i] = true
			key, ok := c.Lineage.uniqueKey(r, i)
			if !ok {
				continue
			}
			if at < 0 || key != last {
				last = key
				if at, ok = places[key]; !ok {
					at = len(winners)
					places[key], winners = at, append(winners, rowRef{p, int32(i)})
					continue
				}
			}
			old := winners[at]
			if loaded[old.piece].rows.Arrival[old.row] > r.Arrival[i] {
				alive[p][i] = false
				continue
			}
			alive[old.piece][old.row] = false
			winners[at] = rowRef{p, int32(i)}
		}
	}
	return alive
}

// hide drops what later attempts replace.
func (c *rules) hide(loaded []piece, alive [][]bool) {
	if c.ofOneAttempt(loaded) {
		return
	}
	highest := map[pointKey]int{}
	for p := range loaded {
		r := loaded[p].rows
		for i := range r.Len() {
			if !alive[p][i] || !c.Lineage.of[r.Source[i]].hides {
				continue
			}
			if key, ok := attemptKey(r, i); ok {
				if old, seen := highest[key]; !seen || old < c.Lineage.of[r.Source[i]].rank {
					highest[key] = c.Lineage.of[r.Source[i]].rank
				}
			}
		}
	}
	for p := range loaded {
		r := loaded[p].rows
		cut := r.Mask.Cut()
		for i := range r.Len() {
			key, ok := attemptKey(r, i)
			if !alive[p][i] || !ok {
				continue
			}
			src := r.Source[i]
			rank, seen := highest[key]
			if seen && rank > c.Lineage.of[src].rank || c.Lineage.of[src].hidden && r.Axes[cut][i] >= c.Lineage.of[src].hideFrom {
				alive[p][i] = false
			}
		}
	}
}

// ofOneAttempt: no point of another attempt is there to hide the others, nor did a later
// one resume in front of them.
func (c *rules) ofOneAttempt(loaded []piece) bool {
	first := -1
	for i := range loaded {
		for _, s := range loaded[i].Group.Extent().Sources {
			if first < 0 {
				first = int(s)
			}
			if of := &c.Lineage.of[s]; of.hidden || of.attempt != c.Lineage.of[first].attempt {
				return false
			}
		}
	}
	return true
}
