package column

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
)

// Rows is the part of a row group that its columns share.
type Rows struct {
	Mask    AxisSet
	Mode    model.Uniqueness
	Axes    [NumAxes][]int64 // nil where mask lacks the axis
	Time    []int64
	Seq     []uint64
	Arrival []int64  // order of arrival in the run, unique for a series
	Source  []uint32 // place in the run's sources
}

// Len is the number of rows.
func (r *Rows) Len() int { return len(r.Time) }

// X is the coordinate on an axis; axis < 0 is the time.
func (r *Rows) X(axis int) []int64 {
	if axis < 0 {
		return r.Time
	}
	axis, gaps := gapsOf(axis)
	if gaps && !r.Mask.Has(axis) {
		return slices.Repeat([]int64{Gap}, r.Len())
	}
	return r.Axes[axis]
}

// Mark is where a row stands along an axis.
type Mark struct {
	X    int64
	Step int64 // of rows of one episode along the axis of episodes, else 0
}

// Compare orders marks.
func (m Mark) Compare(o Mark) int { return cmp.Or(cmp.Compare(m.X, o.X), cmp.Compare(m.Step, o.Step)) }

// stepsPart: along the axis of episodes rows of one x are ordered by their steps.
func stepsPart(axis int) bool { return axis == Episode || axis == Episode+WithGaps }

// Mark is where row i stands along an axis.
func (r *Rows) Mark(i, axis int) (m Mark) {
	plain, _ := gapsOf(axis)
	switch {
	case axis < 0:
		m.X = r.Time[i]
	case r.Mask.Has(plain):
		m.X = r.Axes[plain][i]
	default:
		m.X = Gap
	}
	if stepsPart(axis) && r.Mask.Has(Step) {
		m.Step = r.Axes[Step][i]
	} else if stepsPart(axis) {
		m.Step = Gap
	}
	return m
}

// Slice is a view of some rows that later appends do not touch.
func (r *Rows) Slice(lo, hi int) Rows {
	out := Rows{Mask: r.Mask, Mode: r.Mode, Time: r.Time[lo:hi:hi], Seq: r.Seq[lo:hi:hi], Arrival: r.Arrival[lo:hi:hi], Source: r.Source[lo:hi:hi]}
	for a := range NumAxes {
		if r.Mask.Has(a) {
			out.Axes[a] = r.Axes[a][lo:hi:hi]
		}
	}
	return out
}

// Add appends the rows of o that pick names, all when pick is nil.
func (r *Rows) Add(o *Rows, pick []int32) {
	r.Time = AppendPicked(r.Time, o.Time, pick)
	r.Seq = AppendPicked(r.Seq, o.Seq, pick)
	r.Arrival = AppendPicked(r.Arrival, o.Arrival, pick)
	r.Source = AppendPicked(r.Source, o.Source, pick)
	for a := range NumAxes {
		if r.Mask.Has(a) {
			r.Axes[a] = AppendPicked(r.Axes[a], o.Axes[a], pick)
		}
	}
}

// AppendPicked appends the items that pick names, all when it is nil.
func AppendPicked[T any](dst, src []T, pick []int32) []T {
	if pick == nil {
		return append(dst, src...)
	}
	dst = slices.Grow(dst, len(pick))
	for _, i := range pick {
		dst = append(dst, src[i])
	}
	return dst
}

// compareKey orders rows by what makes two of them the same point under the
// rule of uniqueness; 0 means that they are the same point if also their
// writers agree. Rows without such a key are never the same.
func (r *Rows) compareKey(i, j int) int {
	switch {
	case r.Mode == model.UniqueTime:
		return cmp.Compare(r.Time[i], r.Time[j])
	case r.Mode == model.UniqueStep:
		if !r.Mask.Has(Step) {
			return cmp.Compare(r.Arrival[i], r.Arrival[j])
		}
		return cmp.Compare(r.Axes[Step][i], r.Axes[Step][j])
	case r.Mask == 0:
		return cmp.Compare(r.Arrival[i], r.Arrival[j])
	}
	for _, a := range axisOrder() {
		if r.Mask.Has(a) && r.Axes[a][i] != r.Axes[a][j] {
			return cmp.Compare(r.Axes[a][i], r.Axes[a][j])
		}
	}
	return 0
}

// rising reports whether each row from on is behind the one before it by key. Rows that
// have no key are never the same.
func (r *Rows) rising(from int) bool {
	if r.Mode == model.UniqueTime { // the key of foreign points, of which there are many
		for i := from; i < len(r.Time); i++ {
			if r.Time[i] <= r.Time[i-1] {
				return false
			}
		}
		return true
	}
	if _, keyed := r.SortKey(0); !keyed {
		return true
	}
	for i := from; i < r.Len(); i++ {
		if r.compareKey(i-1, i) >= 0 {
			return false
		}
	}
	return true
}

// Grow makes room for n more rows.
func (r *Rows) Grow(n int) {
	r.Time, r.Seq = slices.Grow(r.Time, n), slices.Grow(r.Seq, n)
	r.Arrival, r.Source = slices.Grow(r.Arrival, n), slices.Grow(r.Source, n)
	for a := range NumAxes {
		if r.Mask.Has(a) {
			r.Axes[a] = slices.Grow(r.Axes[a], n)
		}
	}
}

// Repeats reports whether two rows say the same of one point, but for its values and the
// order of arrival: whichever of them stands, a read cannot tell.
func (r *Rows) Repeats(i, j int) bool {
	if r.Time[i] != r.Time[j] || r.Seq[i] != r.Seq[j] || r.Source[i] != r.Source[j] {
		return false
	}
	if _, keyed := r.SortKey(i); !keyed { // points that are never the same as another
		return false
	}
	for a := range NumAxes {
		if r.Mask.Has(a) && r.Axes[a][i] != r.Axes[a][j] {
			return false
		}
	}
	return true
}

// CompareStored is the order of rows in a segment.
func (r *Rows) CompareStored(i, j int) int {
	if r.Mask == 0 || r.Mode == model.UniqueTime {
		return cmp.Or(cmp.Compare(r.Time[i], r.Time[j]), cmp.Compare(r.Arrival[i], r.Arrival[j]))
	}
	for _, a := range axisOrder() {
		if r.Mask.Has(a) && r.Axes[a][i] != r.Axes[a][j] {
			return cmp.Compare(r.Axes[a][i], r.Axes[a][j])
		}
	}
	return cmp.Or(cmp.Compare(r.Time[i], r.Time[j]), cmp.Compare(r.Arrival[i], r.Arrival[j]))
}

// Place is where a row stands among rows with one x.
type Place struct {
	Mark
	Time   int64
	Writer model.WriterID
	Seq    uint64
	Row    uint32 // low bits of ord: it only parts rows that are equal up to here
	Depth  uint32 // of the run among those that are read, see store.Rows
}

// Compare orders rows as a scan does.
func (p Place) Compare(q Place) int {
	if c := p.Mark.Compare(q.Mark); c != 0 {
		return c
	}
	if p.Time != q.Time {
		return cmp.Compare(p.Time, q.Time)
	}
	if c := bytes.Compare(p.Writer[:], q.Writer[:]); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(p.Seq, q.Seq), cmp.Compare(p.Row, q.Row), cmp.Compare(p.Depth, q.Depth))
}

// Place is where row i stands along an axis; writers are those of the sources.
func (r *Rows) Place(i, axis int, writers []model.WriterID) Place {
	return Place{r.Mark(i, axis), r.Time[i], writers[r.Source[i]], r.Seq[i], uint32(r.Arrival[i]), 0}
}

// Shape is what rows must share for their keys to compare.
type Shape struct {
	Mask AxisSet
	Mode model.Uniqueness
}

// SortKey is what rows of one shape rise by, see Rows.compareKey.
type SortKey [NumAxes]int64

// Less reports whether a row with this key comes first.
func (k SortKey) Less(o SortKey) bool {
	for i := range k { // slices.Compare would put both keys on the heap of who calls
		if k[i] != o[i] {
			return k[i] < o[i]
		}
	}
	return false
}

// SortKey is false for rows that are never the same point as another.
func (r *Rows) SortKey(i int) (key SortKey, ok bool) {
	switch {
	case r.Mode == model.UniqueTime:
		key[0] = r.Time[i]
		return key, true
	case r.Mode == model.UniqueStep && r.Mask.Has(Step):
		key[0] = r.Axes[Step][i]
		return key, true
	case r.Mode == model.UniqueStep || r.Mask == 0:
		return key, false
	}
	for n, a := range axisOrder() {
		if r.Mask.Has(a) {
			key[n] = r.Axes[a][i]
		}
	}
	return key, true
}

// UpTo lists the places from…to-1.
func UpTo(from, to int) []int32 {
	out := make([]int32, 0, to-from)
	for i := from; i < to; i++ {
		out = append(out, int32(i))
	}
	return out
}
