package curve

import (
	"cmp"
	"math"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
)

// form is how points of a series can be told apart.
type form int

const (
	byRules form = iota // by all rules, each point with each other one
	byStep              // only points at one step can be the same, or hide one another
	byTime              // only points at one time can be the same, and none hides another
)

// shape is what reads of a series can leave out.
type shape struct {
	form form
	// cut: a later attempt may have resumed before some of the points.
	cut bool
	// disputed are the steps or times at which points may be the same or hide one another. All
	// others are as they are stored. It is rising.
	disputed []Interval
}

// clean: every point that is not cut off counts.
func (s *shape) clean() bool { return s.form != byRules && len(s.disputed) == 0 }

// settled: every point counts.
func (s *shape) settled() bool { return s.clean() && !s.cut }

// shapeOf looks at the streams of a series; at those of one attempt, unless that is 0.
func shapeOf(s *Series, l lineage, attempt uint32) (out shape) {
	if !s.Known {
		if s.Plain {
			return shape{form: byStep}
		}
		return shape{form: byRules, cut: attempt == 0}
	}
	all := s.tally()
	switch {
	case all.Count > 0 && axes(all.Every).has(step) && !all.timed():
		out.form = byStep
	case !axes(all.Some).has(step) && all.Rules == 1<<model.UniqueTime:
		return shape{form: byTime, disputed: merged(overlaps(s.lanes(nil, attempt, true), func(*lane) any { return nil }))}
	case all.Some == 0 && !all.timed():
		return shape{form: byTime}
	default:
		return shape{form: byRules, cut: attempt == 0}
	}
	if attempt != 0 {
		l = nil
	}
	lanes := s.lanes(l, attempt, false)
	out.cut = slices.ContainsFunc(lanes, func(n lane) bool { return n.cut })
	out.disputed = merged(disputes(lanes, l))
	return out
}

// lane is the range in which the points of a stream lie.
type lane struct {
	*Stream
	low, high int64 // less what later attempts cut off
	cut       bool
	part      uint32 // depth of its run among those that a line is of
}

// lanes are those of an attempt, or of all for 0; by times, or by steps.
func (s *Series) lanes(l lineage, attempt uint32, times bool) (out []lane) {
	cuts := l.cuts()
	for i := range s.Streams {
		t := &s.Streams[i]
		if attempt != 0 && t.Attempt != attempt {
			continue
		}
		n := lane{Stream: t, low: t.Low, high: t.High}
		if times {
			n.low, n.high = t.MinTime, t.MaxTime
		} else if at, has := cuts[t.Attempt]; has {
			n.shorten(at)
		}
		out = append(out, n)
	}
	return out
}

// shorten cuts off what is at a step or behind. Where that is of another axis, it is not known.
func (n *lane) shorten(at int64) {
	if axes(n.Some)&ofRL != 0 {
		n.cut = true
	} else if n.high >= at {
		n.cut, n.high = true, max(at, math.MinInt64+1)-1
	}
}

// disputes are where points of lanes by steps meet.
func disputes(lanes []lane, l lineage) (out []Interval) {
	var axesRule, stepRule []lane
	for _, n := range lanes {
		whole := n
		whole.low, whole.high = n.Low, n.High
		if n.Rules>>model.UniqueAxes&1 == 1 {
			axesRule = append(axesRule, whole)
		}
		if n.Rules>>model.UniqueStep&1 == 1 {
			stepRule = append(stepRule, whole)
		}
	}
	out = append(out, overlaps(stepRule, func(*lane) any { return nil })...)
	out = append(out, overlaps(axesRule, origin)...)
	if l.hides() {
		out = append(out, across(lanes, func(n *lane) uint32 { return n.Attempt })...)
	}
	return out
}

// origin is equal for lanes whose points at equal axes are the same.
func origin(n *lane) any {
	if n.Logger != nil {
		return struct {
			attempt uint32
			logger  uint64
		}{n.Attempt, *n.Logger}
	}
	return struct {
		attempt uint32
		writer  model.WriterID
	}{n.Attempt, n.Writer}
}

// overlaps are where lanes with equal keys do, and where they repeat their own points.
func overlaps(lanes []lane, key func(*lane) any) (out []Interval) {
	slices.SortFunc(lanes, func(a, b lane) int { return cmp.Compare(a.low, b.low) })
	reach := map[any]int64{}
	for i := range lanes {
		n, k := &lanes[i], key(&lanes[i])
		if n.Again != nil {
			out = append(out, *n.Again)
		}
		high, has := reach[k]
		if has && n.low <= high {
			out = append(out, Interval{n.low, min(n.high, high)})
		}
		if !has || n.high > high {
			reach[k] = n.high
		}
	}
	return out
}

// across are where lanes of different groups overlap.
func across(lanes []lane, group func(*lane) uint32) (out []Interval) {
	lanes = slices.DeleteFunc(slices.Clone(lanes), func(n lane) bool { return n.low > n.high })
	slices.SortFunc(lanes, func(a, b lane) int { return cmp.Compare(a.low, b.low) })
	type reach struct {
		of   uint32
		high int64
	}
	var far []reach // the two farthest of different groups, the farthest first
	for i := range lanes {
		n, of := &lanes[i], group(&lanes[i])
		for _, r := range far {
			if r.of != of && n.low <= r.high {
				out = append(out, Interval{n.low, min(n.high, r.high)})
			}
		}
		if at := slices.IndexFunc(far, func(r reach) bool { return r.of == of }); at >= 0 {
			far[at].high = max(far[at].high, n.high)
		} else {
			far = append(far, reach{of, n.high})
		}
		slices.SortFunc(far, func(a, b reach) int { return cmp.Compare(b.high, a.high) })
		far = far[:min(len(far), 2)]
	}
	return out
}

// mostDisputed bounds the length of a query.
const mostDisputed = 64

// merged are disjoint intervals, rising, that have all of some.
func merged(list []Interval) (out []Interval) {
	slices.SortFunc(list, func(a, b Interval) int { return cmp.Compare(a.From, b.From) })
	for _, i := range list {
		if n := len(out); n > 0 && i.From <= out[n-1].To {
			out[n-1].To = max(out[n-1].To, i.To)
		} else {
			out = append(out, i)
		}
	}
	for len(out) > mostDisputed {
		for i := range len(out) / 2 {
			out[i] = Interval{out[2*i].From, out[2*i+1].To}
		}
		if len(out)%2 == 1 {
			out[len(out)/2-1].To = out[len(out)-1].To
		}
		out = out[:len(out)/2]
	}
	return out
}

// tally sums up all streams of a series; Again and End mean nothing.
func (s *Series) tally() (out Tally) {
	for i := range s.Streams {
		out.Add(&s.Streams[i].Tally)
	}
	return out
}

// bounds are the first and the last place along an axis where points of a series may be, lo past
// hi where there is none; false where that is not known.
func (s *Series) bounds(axis int) (lo, hi int64, known bool) {
	all := s.tally()
	switch {
	case !s.Known || axis > step:
		return 0, 0, false
	case axis < 0 && all.Count > 0:
		return all.MinTime, all.MaxTime, true
	case axis == step && axes(all.Some).has(step):
		return all.Low, all.High, true
	}
	return 1, 0, true
}

// top is the highest step of the curve of a series; false where that is not known. It is of an
// attempt that no later one cuts off.
func (s *Series) top(l lineage) (high int64, known bool) {
	if all := s.tally(); !s.Known || all.Rules != 1<<model.UniqueAxes || all.Some != 1<<step || all.Every != 1<<step {
		return 0, false
	}
	cutTop := int64(math.MinInt64)
	for _, n := range s.lanes(l, 0, false) {
		if n.cut {
			cutTop = max(cutTop, n.high)
		} else if !known || n.high > high {
			high, known = n.high, true
		}
	}
	return high, known && high >= cutTop
}
