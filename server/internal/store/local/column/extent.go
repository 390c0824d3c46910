package column

import (
	"math"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
)

// Extent is what a row group knows of its rows without reading them.
type Extent struct {
	Rows    int
	Mask    AxisSet
	Mode    model.Uniqueness
	Lo, Hi  [NumAxes]int64 // of the axes in mask
	MinTime int64
	MaxTime int64
	Sources []uint32 // sources, rising
	// Distinct: no two rows are the same point, whoever wrote them.
	Distinct bool
	// Last is the row that a scan by step (by time without one) ends with.
	Last int32
	// LastTime, LastSource, LastSeq and LastArrival are of that row.
	LastTime    int64
	LastSource  uint32
	LastSeq     uint64
	LastArrival int64
}

// XAxis is the axis that orders a curve: the step, else the time.
func (e *Extent) XAxis() int {
	if e.Mask.Has(Step) {
		return Step
	}
	return -1
}

// Span is the range of x on an axis; axis < 0 is the time.
func (e *Extent) Span(axis int) (lo, hi int64) {
	if axis < 0 {
		return e.MinTime, e.MaxTime
	}
	axis, gaps := gapsOf(axis)
	if gaps && !e.Mask.Has(axis) {
		return Gap, Gap
	}
	return e.Lo[axis], e.Hi[axis]
}

// Reach is the range of x on an axis with that of the steps, which order rows of one x.
func (e *Extent) Reach(axis int) (lo, hi Mark) {
	lo.X, hi.X = e.Span(axis)
	if stepsPart(axis) && e.Mask.Has(Step) {
		lo.Step, hi.Step = e.Lo[Step], e.Hi[Step]
	} else if stepsPart(axis) {
		lo.Step, hi.Step = Gap, Gap
	}
	return lo, hi
}

// Measure fills an extent from rows. Distinct is kept true only when rows rise
// strictly by key, which sorted and freshly logged rows do.
func Measure(r *Rows, writers []model.WriterID) Extent {
	e := Extent{Mask: r.Mask, Mode: r.Mode, Distinct: true}
	e.Extend(r, 0, writers)
	return e
}

// Extend takes in the rows from on.
func (e *Extent) Extend(r *Rows, from int, writers []model.WriterID) {
	if e.Rows == 0 {
		e.MinTime, e.MaxTime = math.MaxInt64, math.MinInt64
		for a := range NumAxes {
			if e.Mask.Has(a) {
				e.Lo[a], e.Hi[a] = math.MaxInt64, math.MinInt64
			}
		}
	}
	e.Rows = r.Len()
	e.MinTime, e.MaxTime = widen(e.MinTime, e.MaxTime, r.Time[from:])
	for a := range NumAxes {
		if e.Mask.Has(a) {
			e.Lo[a], e.Hi[a] = widen(e.Lo[a], e.Hi[a], r.Axes[a][from:])
		}
	}
	e.Distinct = e.Distinct && r.rising(max(from, 1))
	for i := from; i < e.Rows; i++ {
		if i == from || r.Source[i] != r.Source[i-1] {
			e.addSource(r.Source[i])
		}
	}
	e.findLast(r, from, writers)
	e.LastTime, e.LastSource, e.LastSeq, e.LastArrival = r.Time[e.Last], r.Source[e.Last], r.Seq[e.Last], r.Arrival[e.Last]
}

// findLast looks at the rows from on. Most are told apart by x alone.
func (e *Extent) findLast(r *Rows, from int, writers []model.WriterID) {
	axis := e.XAxis()
	xs := r.X(axis)
	for i := from; i < e.Rows; i++ {
		if i == 0 || xs[i] > xs[e.Last] ||
			xs[i] == xs[e.Last] && r.Place(i, axis, writers).Compare(r.Place(int(e.Last), axis, writers)) > 0 {
			e.Last = int32(i)
		}
	}
}

func (e *Extent) addSource(src uint32) {
	if at, ok := slices.BinarySearch(e.Sources, src); !ok {
		// A copy: views share the old slice.
		e.Sources = slices.Insert(slices.Clone(e.Sources), at, src)
	}
}

func widen(lo, hi int64, xs []int64) (int64, int64) {
	for _, x := range xs {
		lo, hi = min(lo, x), max(hi, x)
	}
	return lo, hi
}

// TopKey is at least the sort key of every row.
func (e *Extent) TopKey() (key SortKey) {
	switch e.Mode {
	case model.UniqueTime:
		key[0] = e.MaxTime
	case model.UniqueStep:
		key[0] = e.Hi[Step]
	default:
		for n, a := range axisOrder() {
			key[n] = e.Hi[a]
		}
	}
	return key
}

// LastPlace is the place of the last row.
func (e *Extent) LastPlace(writers []model.WriterID) Place {
	_, x := e.Span(e.XAxis())
	return Place{Mark{X: x}, e.LastTime, writers[e.LastSource], e.LastSeq, uint32(e.LastArrival), 0}
}

// Spans reports whether a coordinate lies in the range of an axis.
func (e *Extent) Spans(axis int, at int64) bool { return e.Lo[axis] <= at && at <= e.Hi[axis] }

// Overlaps reports whether two groups share a range of x.
func (e *Extent) Overlaps(o *Extent, axis int) bool {
	lo, hi := e.Span(axis)
	olo, ohi := o.Span(axis)
	return lo <= ohi && olo <= hi
}

// Meets reports whether two groups overlap on every axis that the first one has.
func (e *Extent) Meets(o *Extent) bool {
	for axis := range NumAxes {
		if e.Mask.Has(axis) && !e.Overlaps(o, axis) {
			return false
		}
	}
	return true
}
