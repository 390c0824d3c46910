package upkeep

import (
	"cmp"
	"maps"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/local/segment"
)

// Which segments are compared is found by run, along the time. Where n segments have a run
// one after the other nothing is compared, and the search grows with the entries of the
// directories. Segments whose points lie at all times meet all others. So that a store
// of those costs no more for a new one the larger it is, there are two limits.
const (
	openAtOnce = 32 // segments of a run that are compared with one that begins in them
	lookedRuns = 16 // of two segments
	// Indexes of 1/lookedPart of its size are read for a new segment, or of leastLook bytes.
	lookedPart = 4
	leastLook  = 64 << 10
)

// meeting is two segments that have runs at one time.
type meeting struct {
	segment, other *segment.File // the first is new
	bytes          int64         // that it has of these runs
	runs           [][2]*segment.Entry
	every, seen    int // runs has one of so many
}

// add takes some of the runs, from all of them.
func (m *meeting) add(a, b *segment.Entry) {
	m.bytes += a.Bytes
	if m.seen++; (m.seen-1)%m.every > 0 {
		return
	}
	if m.runs = append(m.runs, [2]*segment.Entry{a, b}); len(m.runs) < 2*lookedRuns {
		return
	}
	for i := range lookedRuns {
		m.runs[i] = m.runs[2*i]
	}
	m.runs, m.every = m.runs[:lookedRuns], 2*m.every
}

// look is how many bytes of indexes a comparison reads.
func (m *meeting) look() (n int64) {
	for _, run := range m.runs {
		n += int64(run[0].Index.Len) + int64(run[1].Index.Len)
	}
	return n
}

// meetings are the comparisons of fresh segments with all live ones, or with as many as the
// limits allow.
func (k *Keeper) meetings(live []*segment.File, fresh map[*segment.File]bool, unlimited bool) (out []*meeting) {
	if len(fresh) == 0 {
		return nil
	}
	found := finder{fresh: fresh, live: make(map[*segment.File]bool, len(live)), met: map[[2]*segment.File]*meeting{}}
	for _, s := range live {
		found.live[s] = true
	}
	when := timesOf(live, fresh)
	for _, run := range slices.SortedFunc(maps.Keys(when), func(a, b model.RunID) int { return slices.Compare(a[:], b[:]) }) {
		if r := k.table.Run(run); r != nil && !k.table.IsDeleted(run) {
			found.run(r.Places(), when[run])
		}
	}
	left := make(map[*segment.File]int64, len(fresh))
	for s := range fresh {
		left[s] = max(leastLook, s.Size/lookedPart)
	}
	for _, m := range found.sorted() {
		if left[m.segment] > 0 || unlimited {
			left[m.segment] -= m.look()
			out = append(out, m)
		}
	}
	return out
}

// times is a range of them.
type times struct{ least, most int64 }

// timesOf are the runs that fresh segments have points of, and when.
func timesOf(live []*segment.File, fresh map[*segment.File]bool) map[model.RunID]times {
	out := map[model.RunID]times{}
	for _, s := range live {
		if !fresh[s] {
			continue
		}
		for i := range s.Runs {
			e := &s.Runs[i]
			if e.Points == 0 {
				continue
			}
			t, known := out[e.Run]
			if !known {
				t = times{e.MinTime, e.MaxTime}
			}
			out[e.Run] = times{min(t.least, e.MinTime), max(t.most, e.MaxTime)}
		}
	}
	return out
}

// finder finds the segments that meet.
type finder struct {
	fresh, live map[*segment.File]bool
	met         map[[2]*segment.File]*meeting
}

// run goes through the segments of a run by rising time.
func (f *finder) run(places []segment.Place, within times) {
	places = slices.DeleteFunc(places, func(p segment.Place) bool {
		e := p.Ref()
		return e.Points == 0 || e.MaxTime < within.least || e.MinTime > within.most || !f.live[p.Segment]
	})
	if len(places) < 2 {
		return
	}
	slices.SortFunc(places, func(a, b segment.Place) int {
		return cmp.Or(cmp.Compare(a.Ref().MinTime, b.Ref().MinTime), cmp.Compare(a.Segment.ID, b.Segment.ID))
	})
	var open []segment.Place
	for _, p := range places {
		open = slices.DeleteFunc(open, func(o segment.Place) bool { return o.Ref().MaxTime < p.Ref().MinTime })
		for _, o := range open {
			if (f.fresh[p.Segment] || f.fresh[o.Segment]) && p.Ref().Overlaps(o.Ref()) {
				f.note(p, o)
			}
		}
		if open = append(open, p); len(open) > openAtOnce {
			first := firstToEnd(open)
			open = slices.DeleteFunc(open, func(o segment.Place) bool { return o == first })
		}
	}
}

func firstToEnd(open []segment.Place) segment.Place {
	return slices.MinFunc(open, func(a, b segment.Place) int { return cmp.Compare(a.Ref().MaxTime, b.Ref().MaxTime) })
}

func (f *finder) note(p, o segment.Place) {
	if !f.fresh[p.Segment] || f.fresh[o.Segment] && o.Segment.ID > p.Segment.ID {
		p, o = o, p
	}
	key := [2]*segment.File{p.Segment, o.Segment}
	m := f.met[key]
	if m == nil {
		m = &meeting{segment: p.Segment, other: o.Segment, every: 1}
		f.met[key] = m
	}
	m.add(p.Ref(), o.Ref())
}

// sorted are the meetings of each segment, those that have most in common first.
func (f *finder) sorted() (out []*meeting) {
	for _, m := range f.met {
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b *meeting) int {
		return cmp.Or(cmp.Compare(b.bytes, a.bytes), cmp.Compare(b.segment.ID, a.segment.ID), cmp.Compare(b.other.ID, a.other.ID))
	})
	return out
}
