package curve

import (
	"cmp"
	"math"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
)

// Interval is a range of steps or times, both ends included.
type Interval struct{ From, To int64 }

// Stream is what one writer added to a series in one attempt.
type Stream struct {
	Writer  model.WriterID
	Logger  *uint64 // that the writer has now
	Attempt uint32
	Tally
}

// Tally sums up points of a series in the order in which they arrived.
type Tally struct {
	Count            uint64
	Rules            uint8  // bit i: some point has model.Uniqueness(i)
	Some, Every      uint16 // bit i: some point has, every point has the axis model.Axes()[i]
	Low, High        int64  // steps of the points that have one
	MinTime, MaxTime int64
	// Again has every step at which a point arrived when one at that step, or past it, was there
	// already; nil for none. Of points that are told apart by time it is of times.
	Again *Interval
	End   End
	// Values are the least and the greatest finite one, as [OrderOf] has them; From is past To
	// where none is finite. Nil where they were not kept.
	Values *Interval
}

// End is the last point by step, of points without one by time.
type End struct {
	Step, Time   int64
	Seq, Arrival uint64
	Value        uint64 // bits of the float64 or int64; 0 of other kinds
}

// OrderOf is a number that orders float64s as they are ordered; −0 is before 0.
func OrderOf(v float64) int64 {
	bits := int64(math.Float64bits(v))
	return bits ^ int64(uint64(bits>>63)>>1)
}

// number is the value with a place in the order of its kind.
func number(kind model.Kind, order int64) store.Number {
	if kind == model.KindInt {
		return store.Number{Int: order}
	}
	return store.Number{Float: math.Float64frombits(uint64(order ^ int64(uint64(order>>63)>>1)))}
}

// Add takes in points that arrived later.
func (t *Tally) Add(o *Tally) {
	if o.Count == 0 {
		return
	}
	if t.Count == 0 {
		*t = *o
		return
	}
	t.repeat(o)
	if t.ends(o) {
		t.End = o.End
	}
	switch {
	case !axes(o.Some).has(step):
	case !axes(t.Some).has(step):
		t.Low, t.High = o.Low, o.High
	default:
		t.Low, t.High = min(t.Low, o.Low), max(t.High, o.High)
	}
	t.MinTime, t.MaxTime = min(t.MinTime, o.MinTime), max(t.MaxTime, o.MaxTime)
	if t.Values != nil && o.Values != nil {
		t.Values = t.Values.With(o.Values.From, o.Values.To)
	} else {
		t.Values = nil
	}
	t.Count += o.Count
	t.Rules |= o.Rules
	t.Some |= o.Some
	t.Every &= o.Every
}

// repeat widens Again.
func (t *Tally) repeat(o *Tally) {
	low, high := max(t.MinTime, o.MinTime), min(t.MaxTime, o.MaxTime)
	if axes(t.Every&o.Every).has(step) && !t.timed() {
		low, high = max(t.Low, o.Low), min(t.High, o.High)
	}
	if low <= high {
		t.Again = t.Again.With(low, high)
	}
	if o.Again != nil {
		t.Again = t.Again.With(o.Again.From, o.Again.To)
	}
}

func (t *Tally) timed() bool { return t.Rules>>model.UniqueTime&1 == 1 }

// With is the least interval that has another one too.
func (i *Interval) With(from, to int64) *Interval {
	if i == nil {
		return &Interval{from, to}
	}
	return &Interval{min(i.From, from), max(i.To, to)}
}

// ends reports whether the end of o is behind that of t.
func (t *Tally) ends(o *Tally) bool {
	return cmp.Or(compareBits(t.Some, o.Some), t.End.compare(&o.End), cmp.Compare(t.End.Seq, o.End.Seq), cmp.Compare(uint32(t.End.Arrival), uint32(o.End.Arrival))) < 0
}

// compareBits: points with a step come behind those without.
func compareBits(a, b uint16) int { return cmp.Compare(a&(1<<step), b&(1<<step)) }

// compare orders ends of different writers up to the writer.
func (e *End) compare(o *End) int {
	return cmp.Or(cmp.Compare(e.Step, o.Step), cmp.Compare(e.Time, o.Time))
}
