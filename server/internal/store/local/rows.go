package local

import (
	"bytes"
	"cmp"
	"math"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
)

// Places of axes in model.Axes that the rules of curves name.
const (
	axStep    = 0
	axRLStep  = 1
	axEpisode = 2
	axEnvStep = 3
	numAxes   = 10
)

// axisSet is a bit for each place in model.Axes.
type axisSet uint16

func (s axisSet) has(axis int) bool { return s&(1<<axis) != 0 }

// rl says that points are told apart by all axes, because a step alone repeats
// in every episode.
func (s axisSet) rl() bool { return s&(1<<axRLStep|1<<axEpisode|1<<axEnvStep) != 0 }

func axisIndex(a model.Axis) int { return slices.Index(model.Axes(), a) }

// axisOrder is the order in which axes sort rows: what grows over the whole run
// first, what starts again in every episode last.
func axisOrder() [numAxes]int {
	return [numAxes]int{axRLStep, axEpisode, axEnvStep, axStep, 4, 5, 6, 7, 8, 9}
}

// rows is the part of a row group that its columns share.
type rows struct {
	mask axisSet
	mode model.Uniqueness
	axes [numAxes][]int64 // nil where mask lacks the axis
	time []int64
	seq  []uint64
	ord  []int64  // order of arrival in the run, unique for a series
	src  []uint32 // place in the run's sources
}

func (r *rows) len() int { return len(r.time) }

// x is the coordinate on an axis; axis < 0 is the time.
func (r *rows) x(axis int) []int64 {
	if axis < 0 {
		return r.time
	}
	return r.axes[axis]
}

// slice is a view of some rows that later appends do not touch.
func (r *rows) slice(lo, hi int) rows {
	out := rows{mask: r.mask, mode: r.mode, time: r.time[lo:hi:hi], seq: r.seq[lo:hi:hi], ord: r.ord[lo:hi:hi], src: r.src[lo:hi:hi]}
	for a := range numAxes {
		if r.mask.has(a) {
			out.axes[a] = r.axes[a][lo:hi:hi]
		}
	}
	return out
}

// add appends the rows of o that pick names, all when pick is nil.
func (r *rows) add(o *rows, pick []int32) {
	r.time = appendPicked(r.time, o.time, pick)
	r.seq = appendPicked(r.seq, o.seq, pick)
	r.ord = appendPicked(r.ord, o.ord, pick)
	r.src = appendPicked(r.src, o.src, pick)
	for a := range numAxes {
		if r.mask.has(a) {
			r.axes[a] = appendPicked(r.axes[a], o.axes[a], pick)
		}
	}
}

func appendPicked[T any](dst, src []T, pick []int32) []T {
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
func (r *rows) compareKey(i, j int) int {
	switch {
	case r.mode == model.UniqueTime:
		return cmp.Compare(r.time[i], r.time[j])
	case r.mode == model.UniqueStep:
		if !r.mask.has(axStep) {
			return cmp.Compare(r.ord[i], r.ord[j])
		}
		return cmp.Compare(r.axes[axStep][i], r.axes[axStep][j])
	case r.mask == 0:
		return cmp.Compare(r.ord[i], r.ord[j])
	}
	for _, a := range axisOrder() {
		if r.mask.has(a) && r.axes[a][i] != r.axes[a][j] {
			return cmp.Compare(r.axes[a][i], r.axes[a][j])
		}
	}
	return 0
}

// compareStored is the order of rows in a segment.
func (r *rows) compareStored(i, j int) int {
	if r.mask == 0 || r.mode == model.UniqueTime {
		return cmp.Or(cmp.Compare(r.time[i], r.time[j]), cmp.Compare(r.ord[i], r.ord[j]))
	}
	for _, a := range axisOrder() {
		if r.mask.has(a) && r.axes[a][i] != r.axes[a][j] {
			return cmp.Compare(r.axes[a][i], r.axes[a][j])
		}
	}
	return cmp.Or(cmp.Compare(r.time[i], r.time[j]), cmp.Compare(r.ord[i], r.ord[j]))
}

// place is where a row stands among rows with one x.
type place struct {
	x, time int64
	writer  model.WriterID
	seq     uint64
	row     uint32 // low bits of ord: it only parts rows that are equal up to here
	depth   uint32 // of the run among those that are read, see store.Rows
}

func (p place) compare(q place) int {
	if p.x != q.x {
		return cmp.Compare(p.x, q.x)
	}
	if p.time != q.time {
		return cmp.Compare(p.time, q.time)
	}
	if c := bytes.Compare(p.writer[:], q.writer[:]); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(p.seq, q.seq), cmp.Compare(p.row, q.row), cmp.Compare(p.depth, q.depth))
}

func (r *rows) place(i, axis int, l *lineage) place {
	return place{r.x(axis)[i], r.time[i], l.writers[r.src[i]], r.seq[i], uint32(r.ord[i]), 0}
}

// values is a column: one of the slices is used, by kind.
type values struct {
	kind   model.Kind
	floats []float64
	ints   []int64
	docs   [][]byte
}

func (v *values) len() int {
	switch v.kind {
	case model.KindFloat:
		return len(v.floats)
	case model.KindInt:
		return len(v.ints)
	}
	return len(v.docs)
}

func (v *values) add(o *values, pick []int32) {
	switch v.kind {
	case model.KindFloat:
		v.floats = appendPicked(v.floats, o.floats, pick)
	case model.KindInt:
		v.ints = appendPicked(v.ints, o.ints, pick)
	default:
		v.docs = appendPicked(v.docs, o.docs, pick)
	}
}

func (v *values) slice(lo, hi int) values {
	out := values{kind: v.kind}
	switch v.kind {
	case model.KindFloat:
		out.floats = v.floats[lo:hi:hi]
	case model.KindInt:
		out.ints = v.ints[lo:hi:hi]
	default:
		out.docs = v.docs[lo:hi:hi]
	}
	return out
}

func numeric(k model.Kind) bool { return k == model.KindFloat || k == model.KindInt }

// extent is what a row group knows of its rows without reading them.
type extent struct {
	n      int
	mask   axisSet
	mode   model.Uniqueness
	lo, hi [numAxes]int64 // of the axes in mask
	tlo    int64
	thi    int64
	srcs   []uint32 // sources, rising
	// distinct: no two rows are the same point, whoever wrote them.
	distinct bool
	// last is the row that scan order by step (by time without one) ends with.
	last int32
	// lastTime, lastSrc, lastSeq and lastOrd are of that row.
	lastTime int64
	lastSrc  uint32
	lastSeq  uint64
	lastOrd  int64
}

// xAxis is the axis that orders a curve: the step, else the time.
func (e *extent) xAxis() int {
	if e.mask.has(axStep) {
		return axStep
	}
	return -1
}

// span is the range of x on an axis; axis < 0 is the time.
func (e *extent) span(axis int) (lo, hi int64) {
	if axis < 0 {
		return e.tlo, e.thi
	}
	return e.lo[axis], e.hi[axis]
}

// measure fills an extent from rows. Distinct is kept true only when rows rise
// strictly by key, which sorted and freshly logged rows do.
func measure(r *rows, l *lineage) extent {
	e := extent{mask: r.mask, mode: r.mode, distinct: true}
	e.extend(r, 0, l)
	return e
}

// extend takes in the rows from on.
func (e *extent) extend(r *rows, from int, l *lineage) {
	if e.n == 0 {
		e.tlo, e.thi = math.MaxInt64, math.MinInt64
		for a := range numAxes {
			if e.mask.has(a) {
				e.lo[a], e.hi[a] = math.MaxInt64, math.MinInt64
			}
		}
	}
	e.n = r.len()
	e.tlo, e.thi = widen(e.tlo, e.thi, r.time[from:])
	for a := range numAxes {
		if e.mask.has(a) {
			e.lo[a], e.hi[a] = widen(e.lo[a], e.hi[a], r.axes[a][from:])
		}
	}
	_, keyed := r.sortKey(0)
	for i := max(from, 1); i < e.n && keyed && e.distinct; i++ {
		e.distinct = r.compareKey(i-1, i) < 0
	}
	for i := from; i < e.n; i++ {
		if i == from || r.src[i] != r.src[i-1] {
			e.addSource(r.src[i])
		}
		if i == 0 || r.place(i, e.xAxis(), l).compare(r.place(int(e.last), e.xAxis(), l)) > 0 {
			e.last = int32(i)
		}
	}
	e.lastTime, e.lastSrc, e.lastSeq, e.lastOrd = r.time[e.last], r.src[e.last], r.seq[e.last], r.ord[e.last]
}

func (e *extent) addSource(src uint32) {
	if at, ok := slices.BinarySearch(e.srcs, src); !ok {
		// A copy: views share the old slice.
		e.srcs = slices.Insert(slices.Clone(e.srcs), at, src)
	}
}

func widen(lo, hi int64, xs []int64) (int64, int64) {
	for _, x := range xs {
		lo, hi = min(lo, x), max(hi, x)
	}
	return lo, hi
}

// lastPlace is the place of the last row.
func (e *extent) lastPlace(l *lineage) place {
	_, x := e.span(e.xAxis())
	return place{x, e.lastTime, l.writers[e.lastSrc], e.lastSeq, uint32(e.lastOrd), 0}
}

// rowGroup is a row group wherever it lies. Reading may fail on a damaged file.
type rowGroup interface {
	extent() *extent
	rows() (*rows, error)
	values(col int) (values, error)
	// summary of the column, false when it is not stored.
	summary(col int) (aggregate, bool)
}

// chunk is one series' part of a row group.
type chunk struct {
	group rowGroup
	col   int
}
