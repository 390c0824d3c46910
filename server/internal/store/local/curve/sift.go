package curve

import (
	"cmp"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
)

// A client that sends its points twice leaves groups of which no point is in the curve any
// more: later groups of the same source have each of their keys. Such a group is found
// once and left out of every read of the curve, so that the rest is read by its summaries,
// as if it had been sent once. It stays dead whatever comes later: what replaced its
// points is only replaced by later points of the same keys.

// sifted is the flushed groups of a series less the dead ones.
type sifted struct {
	layout uint64
	of     []column.Chunk // all of them, not to be written to
	reach  int64          // the last key of these
	dead   map[column.Group]bool
	left   []column.Chunk // nil where none is dead
}

// Limits of what is compared for a group: a client that sends again makes about as many
// groups as the first time, and random steps meet all others.
const (
	coverGroups = 16
	coverRows   = 4 // times as many rows
)

// sift is the view without its dead groups. It is not for reads of all attempts and of
// what is superseded.
func (v *View) sift() *View {
	axis := v.keyAxis()
	if axis == noKey || !v.long() {
		return v
	}
	s := v.siftOf(axis)
	if s == nil || s.left == nil {
		return v
	}
	out := *v
	out.Chunks = append(slices.Clip(s.left), v.Chunks[v.InSegments:]...)
	out.InSegments = len(s.left)
	return &out
}

const noKey = -2

// keyOf is the one axis that tells the points of a group apart, -1 for the time.
func keyOf(e *column.Extent) int {
	switch {
	case len(e.Sources) != 1:
		return noKey
	case e.Mode == model.UniqueTime:
		return -1
	case e.Mode == model.UniqueStep && e.Mask.Has(column.Step) || e.Mask == 1<<column.Step:
		return column.Step
	}
	return noKey
}

// keyAxis is that of the first flushed group: the others are alike, or never dead.
func (v *View) keyAxis() int {
	if v.InSegments == 0 {
		return noKey
	}
	return keyOf(v.Chunks[0].Group.Extent())
}

func (v *View) siftOf(axis int) *sifted {
	old := v.Memo.known().sifted
	if old != nil && old.layout == v.Layout {
		return old
	}
	s := old.extended(v, axis)
	if s == nil {
		s = v.newSifted(old, axis)
	}
	if v.over() {
		return nil
	}
	if len(s.dead) > 0 {
		s.left = slices.DeleteFunc(slices.Clone(s.of), func(c column.Chunk) bool { return s.dead[c.Group] })
	}
	v.keep(func(w *worked) { w.sifted = s })
	return s
}

// extended is what was sifted with groups that lie behind all of it: they repeat nothing.
func (s *sifted) extended(v *View, axis int) *sifted {
	if s == nil || len(s.of) > v.InSegments || !slices.Equal(s.of, v.Chunks[:len(s.of)]) {
		return nil
	}
	next := &sifted{v.Layout, v.flushed(), s.reach, s.dead, nil}
	for _, c := range v.flushed()[len(s.of):] {
		lo, hi := c.Group.Extent().Span(axis)
		if lo <= next.reach {
			return nil
		}
		next.reach = hi
	}
	return next
}

// newSifted looks at all groups that others meet; what was dead is.
func (v *View) newSifted(old *sifted, axis int) *sifted {
	s := &sifted{layout: v.Layout, of: v.flushed(), dead: map[column.Group]bool{}}
	known := map[column.Group]bool{}
	if old != nil {
		for _, c := range old.of {
			known[c.Group] = true
		}
	}
	chunks := slices.Clone(v.flushed())
	byKey := func(a, b column.Chunk) int {
		alo, _ := a.Group.Extent().Span(axis)
		blo, _ := b.Group.Extent().Span(axis)
		return cmp.Compare(alo, blo)
	}
	slices.SortStableFunc(chunks, byKey)
	keys := &keyReader{axis: axis}
	for i, c := range chunks {
		_, hi := c.Group.Extent().Span(axis)
		if s.reach = max(s.reach, hi); i == 0 {
			s.reach = hi
		}
		if old != nil && old.dead[c.Group] {
			s.dead[c.Group] = true
			continue
		}
		over := covers(chunks, i, axis)
		fresh := !known[c.Group] || slices.ContainsFunc(over, func(o column.Chunk) bool { return !known[o.Group] })
		if fresh && len(over) > 0 && !v.over() && keys.dead(c, over) {
			s.dead[c.Group] = true
		}
	}
	return s
}

// covers are the groups that may have every key of one, nil where they cannot.
func covers(chunks []column.Chunk, at, axis int) (over []column.Chunk) {
	e := chunks[at].Group.Extent()
	if keyOf(e) != axis {
		return nil
	}
	lo, hi := e.Span(axis)
	rows := 0
	take := func(c column.Chunk) {
		o := c.Group.Extent()
		if olo, ohi := o.Span(axis); olo <= hi && ohi >= lo && keyOf(o) == axis && o.Mode == e.Mode && o.Mask == e.Mask && o.Sources[0] == e.Sources[0] {
			over, rows = append(over, c), rows+o.Rows
		}
	}
	for i := at - 1; i >= max(0, at-2*coverGroups); i-- {
		take(chunks[i])
	}
	for i := at + 1; i < len(chunks) && len(over) <= coverGroups; i++ {
		if first, _ := chunks[i].Group.Extent().Span(axis); first > hi {
			break
		}
		take(chunks[i])
	}
	if len(over) > coverGroups || rows < e.Rows || rows > coverRows*e.Rows+coverGroups*column.BlockRows {
		return nil
	}
	return over
}

// keyReader compares the keys of groups; those of the last ones are at hand.
type keyReader struct {
	axis int
	last [coverGroups / 2]keyed
	next int
}

// keyed is the keys of a group by rising key, with their order of arrival.
type keyed struct {
	of      column.Group
	xs      []int64
	arrival []int64
}

func (k *keyReader) read(g column.Group) (*keyed, bool) {
	for i := range k.last {
		if k.last[i].of == g {
			return &k.last[i], k.last[i].xs != nil
		}
	}
	into := &k.last[k.next]
	k.next = (k.next + 1) % len(k.last)
	*into = keyed{of: g}
	if r, err := g.Rows(); err == nil && slices.IsSorted(r.X(k.axis)) { // damage is reported by who needs the rows
		into.xs, into.arrival = r.X(k.axis), r.Arrival
	}
	return into, into.xs != nil
}

// dead reports whether later points have every key of a group.
func (k *keyReader) dead(c column.Chunk, over []column.Chunk) bool {
	own, ok := k.read(c.Group)
	if !ok {
		return false
	}
	xs, arrival := own.xs, own.arrival
	taken := make([]bool, len(xs))
	left := len(xs)
	for _, o := range over {
		if other, ok := k.read(o.Group); ok {
			left -= other.take(xs, arrival, taken)
		}
		if left == 0 {
			return true
		}
	}
	return false
}

// take marks the keys that a later point has, too.
func (k *keyed) take(xs, arrival []int64, taken []bool) (n int) {
	at, _ := slices.BinarySearch(xs, k.xs[0])
	from, _ := slices.BinarySearch(k.xs, xs[0])
	for at < len(xs) && from < len(k.xs) {
		switch x, y := xs[at], k.xs[from]; {
		case x < y:
			at++
		case x > y:
			from++
		default:
			for i := at; i < len(xs) && xs[i] == x; i++ {
				if !taken[i] && k.arrival[from] > arrival[i] {
					taken[i] = true
					n++
				}
			}
			from++
		}
	}
	return n
}
