package local

import (
	"cmp"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
)

// piece is a part of what a read selects: a whole chunk, or some rows of it.
type piece struct {
	chunk
	rows *rows   // read already; nil for a whole chunk that was not needed yet
	keep []int32 // rows, nil for all
}

// whole says that the stored summary of the chunk holds.
func (p *piece) whole() bool { return p.keep == nil }

// select picks the points of a series that a read is about. Chunks that can
// hold no superseded point stay whole; the others are read and compared.
func (v *view) pieces(sel store.Attempts) []piece {
	if sel.All {
		out := make([]piece, len(v.chunks))
		for i, c := range v.chunks {
			out[i] = piece{chunk: c}
		}
		return out
	}
	c := curve{view: v, only: sel.Number}
	for _, ch := range v.chunks {
		if c.takes(ch.group.extent()) {
			c.chunks = append(c.chunks, ch)
		}
	}
	var out []piece
	for _, group := range c.components() {
		out = append(out, c.resolve(group)...)
	}
	return out
}

// curve applies the rules of uniqueness and attempts to some chunks.
type curve struct {
	*view
	only   uint32 // attempt number, 0 for the curve
	chunks []chunk
}

func (c *curve) takes(e *extent) bool {
	if c.only == 0 {
		return !c.gone(e)
	}
	return slices.ContainsFunc(e.srcs, func(s uint32) bool { return c.lineage.attempt[s] == c.only })
}

// gone: a later attempt resumed in front of all of a group. Its points replace
// none that this attempt does not hide as well, because under UniqueAxes only
// points of one attempt are the same.
func (v *view) gone(e *extent) bool {
	cut := cutAxis(e.mask)
	return e.mode == model.UniqueAxes && cut >= 0 && !slices.ContainsFunc(e.srcs, func(s uint32) bool {
		return !v.lineage.hidden[s] || e.lo[cut] < v.lineage.hideFrom[s]
	})
}

// mayConflict reports whether a point of one group could replace one of the
// other. It errs on the side of yes.
func (c *curve) mayConflict(a, b *extent) bool {
	if c.only == 0 && attemptsMeet(a, b) && c.lineage.mayHide(a.srcs, b.srcs) {
		return true
	}
	if a.mode != b.mode {
		return false
	}
	switch a.mode {
	case model.UniqueTime:
		return overlap(a, b, -1)
	case model.UniqueStep:
		return a.mask.has(axStep) && b.mask.has(axStep) && overlap(a, b, axStep)
	}
	return a.mask == b.mask && a.mask != 0 && allOverlap(a, b) && c.lineage.shareIdent(a.srcs, b.srcs)
}

// attemptsMeet: points of two attempts may have the same key.
func attemptsMeet(a, b *extent) bool {
	if !a.mask.has(axStep) || !b.mask.has(axStep) || a.mask.rl() != b.mask.rl() {
		return false
	}
	if a.mask.rl() {
		return a.mask == b.mask && allOverlap(a, b)
	}
	return overlap(a, b, axStep)
}

func overlap(a, b *extent, axis int) bool {
	alo, ahi := a.span(axis)
	blo, bhi := b.span(axis)
	return alo <= bhi && blo <= ahi
}

func allOverlap(a, b *extent) bool {
	for axis := range numAxes {
		if a.mask.has(axis) && !overlap(a, b, axis) {
			return false
		}
	}
	return true
}

// sweepAxis is an axis on which chunks must overlap to conflict: -1 is the
// time, -2 none.
func (c *curve) sweepAxis() int {
	rl, step, time, free := true, true, true, true
	for _, ch := range c.chunks {
		e := ch.group.extent()
		rl = rl && e.mask.has(axRLStep) && e.mode == model.UniqueAxes
		step = step && e.mask.has(axStep) && e.mode != model.UniqueTime
		time = time && e.mode == model.UniqueTime && c.lineage.oneAttempt(append(slices.Clone(e.srcs), c.chunks[0].group.extent().srcs[0]))
		free = free && e.mask == 0
	}
	switch {
	case rl:
		return axRLStep
	case step:
		return axStep
	case time, free:
		return -1
	}
	return -2
}

// components groups the chunks that may conflict, directly or through others.
func (c *curve) components() [][]chunk {
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
		slices.SortStableFunc(c.chunks, func(a, b chunk) int {
			alo, _ := a.group.extent().span(axis)
			blo, _ := b.group.extent().span(axis)
			return cmp.Compare(alo, blo)
		})
	}
	var active []int
	for i := range c.chunks {
		e := c.chunks[i].group.extent()
		keep := active[:0]
		for _, j := range active {
			o := c.chunks[j].group.extent()
			if axis >= -1 && !overlap(e, o, axis) {
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

func group(chunks []chunk, find func(int) int) [][]chunk {
	at := map[int]int{}
	var out [][]chunk
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
func (c *curve) resolve(chunks []chunk) []piece {
	if len(chunks) == 1 {
		switch c.judge(chunks[0].group.extent()) {
		case keepAll:
			return []piece{{chunk: chunks[0]}}
		case dropAll:
			return nil
		}
	}
	loaded := make([]piece, 0, len(chunks))
	for _, ch := range chunks {
		r, err := ch.group.rows()
		if err != nil {
			c.damaged(err)
			continue
		}
		loaded = append(loaded, piece{chunk: ch, rows: r})
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
func (c *curve) judge(e *extent) verdict {
	if !e.distinct || !c.lineage.oneAttempt(e.srcs) {
		return lookInside
	}
	src, cut := e.srcs[0], cutAxis(e.mask)
	if c.only != 0 || cut < 0 || !c.lineage.hidden[src] || e.hi[cut] < c.lineage.hideFrom[src] {
		return keepAll
	}
	if e.lo[cut] >= c.lineage.hideFrom[src] {
		return dropAll
	}
	return lookInside
}

// pointKey makes points with equal keys the same point.
type pointKey struct {
	mode  model.Uniqueness
	mask  axisSet
	ident uint32
	at    [numAxes]int64
}

// uniqueKey is false for points that are never the same as another.
func (l *lineage) uniqueKey(r *rows, i int) (pointKey, bool) {
	key := pointKey{mode: r.mode}
	switch r.mode {
	case model.UniqueTime:
		key.at[0] = r.time[i]
		return key, true
	case model.UniqueStep:
		if !r.mask.has(axStep) {
			return key, false
		}
		key.at[0] = r.axes[axStep][i]
		return key, true
	}
	key.mask, key.ident = r.mask, l.ident[r.src[i]]
	for a := range numAxes {
		if r.mask.has(a) {
			key.at[a] = r.axes[a][i]
		}
	}
	return key, r.mask != 0
}

// attemptKey is false for points without a step.
func attemptKey(r *rows, i int) (pointKey, bool) {
	if !r.mask.has(axStep) {
		return pointKey{}, false
	}
	if !r.mask.rl() {
		return pointKey{at: [numAxes]int64{r.axes[axStep][i]}}, true
	}
	key := pointKey{mask: r.mask}
	for a := range numAxes {
		if r.mask.has(a) {
			key.at[a] = r.axes[a][i]
		}
	}
	return key, true
}

type rowRef struct {
	piece int
	row   int32
}

// unique marks the latest of each point, within the selected attempt if any.
func (c *curve) unique(loaded []piece) [][]bool {
	alive := make([][]bool, len(loaded))
	winner := map[pointKey]rowRef{}
	for p := range loaded {
		r := loaded[p].rows
		alive[p] = make([]bool, r.len())
		for i := range r.len() {
			if c.only != 0 && c.lineage.attempt[r.src[i]] != c.only {
				continue
			}
			alive[p][i] = true
			key, ok := c.lineage.uniqueKey(r, i)
			if !ok {
				continue
			}
			if old, ok := winner[key]; ok {
				if loaded[old.piece].rows.ord[old.row] > r.ord[i] {
					alive[p][i] = false
					continue
				}
				alive[old.piece][old.row] = false
			}
			winner[key] = rowRef{p, int32(i)}
		}
	}
	return alive
}

// hide drops what later attempts replace.
func (c *curve) hide(loaded []piece, alive [][]bool) {
	highest := map[pointKey]int{}
	for p := range loaded {
		r := loaded[p].rows
		for i := range r.len() {
			if !alive[p][i] || !c.lineage.hides[r.src[i]] {
				continue
			}
			if key, ok := attemptKey(r, i); ok {
				if old, seen := highest[key]; !seen || old < c.lineage.rank[r.src[i]] {
					highest[key] = c.lineage.rank[r.src[i]]
				}
			}
		}
	}
	for p := range loaded {
		r := loaded[p].rows
		cut := cutAxis(r.mask)
		for i := range r.len() {
			key, ok := attemptKey(r, i)
			if !alive[p][i] || !ok {
				continue
			}
			src := r.src[i]
			rank, seen := highest[key]
			if seen && rank > c.lineage.rank[src] || c.lineage.hidden[src] && r.axes[cut][i] >= c.lineage.hideFrom[src] {
				alive[p][i] = false
			}
		}
	}
}
