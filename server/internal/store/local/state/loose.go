package state

import (
	"math"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
)

// loose is points of a run that share their rows with no other. Each is a row group of one
// row and one column, without axes, of a client that knows no sequences. In the group
// of its series each would cost as much as a row of fifty. So they wait here, one behind
// the other, and go there together: when they are many, and before anybody reads the run
// or a flush takes it.
type loose struct {
	source   uint32
	series   []uint32
	times    []int64
	arrivals []int64
	values   []uint64 // the bits of a number
}

const (
	// looseBytes is what a point takes.
	looseBytes = 28
	// looseMost is how many wait at most, or four of each series of the run.
	looseMost = 16 << 10
)

// isLoose reports whether a group is a point that can wait.
func isLoose(g *record.Group) bool {
	return len(g.Columns) == 1 && g.Rows.Len() == 1 && g.Rows.Mask == 0 && g.Rows.Mode == model.UniqueTime && g.Rows.Seq[0] == 0 && column.Numeric(g.Columns[0].Kind)
}

// hold lets a point wait.
func (r *Run) hold(g *record.Group, src uint32) {
	if r.loose == nil {
		r.loose = &loose{}
	}
	l := r.loose
	if l.source != src || len(l.times) >= max(looseMost, 4*r.names.count) {
		r.gather()
	}
	before := cap(l.times)
	l.source = src
	l.series = append(l.series, g.Series[0])
	l.times = append(l.times, g.Rows.Time[0])
	l.arrivals = append(l.arrivals, g.Rows.Arrival[0])
	l.values = append(l.values, column.BitsOf(&g.Columns[0], 0))
	r.grow(looseBytes * (cap(l.times) - before))
}

// waiting reports whether points wait.
func (r *Run) waiting() bool { return r.loose != nil && len(r.loose.times) > 0 }

// gather takes the points that wait into the groups of their series, those of one series
// at once. The caller holds mu for writing.
func (r *Run) gather() {
	if !r.waiting() {
		return
	}
	l := r.loose
	n := len(l.times)
	ends := make([]int, len(r.series)+1) // of each series; first how many it has
	for _, id := range l.series {
		ends[id+1]++
	}
	for i := 1; i < len(ends); i++ {
		ends[i] += ends[i-1]
	}
	sorted := loose{times: make([]int64, n), arrivals: make([]int64, n), values: make([]uint64, n)}
	for i, id := range l.series {
		at := ends[id]
		ends[id]++
		sorted.times[at], sorted.arrivals[at], sorted.values[at] = l.times[i], l.arrivals[i], l.values[i]
	}
	memo, zeros := memory{lines: r.lines()}, make([]uint64, n)
	for id, from := 0, 0; id < len(r.series); id++ {
		if to := ends[id]; to > from {
			g := record.Group{Rows: column.Rows{Mode: model.UniqueTime, Time: sorted.times[from:to], Arrival: sorted.arrivals[from:to], Seq: zeros[:to-from]}, Series: []uint32{uint32(id)}, Columns: []column.Values{numbers(r.series[id].Kind, sorted.values[from:to])}}
			r.take(&g, l.source, &memo)
			from = to
		}
	}
	l.series, l.times, l.arrivals, l.values = l.series[:0], l.times[:0], l.arrivals[:0], l.values[:0]
}

// numbers are values by their bits.
func numbers(kind model.Kind, bits []uint64) column.Values {
	v := column.Values{Kind: kind}
	for _, b := range bits {
		if kind == model.KindInt {
			v.Ints = append(v.Ints, int64(b))
		} else {
			v.Floats = append(v.Floats, math.Float64frombits(b))
		}
	}
	return v
}
