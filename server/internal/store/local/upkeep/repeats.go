package upkeep

import (
	"context"
	"slices"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/local/segment"
)

// A client that sends its points again makes segments whose points later ones say again.
// Such a segment is rewritten without them, when that is worth it:
//
//   - at once, where it frees a fifth of it;
//   - when no more repeats came for a while, until less than 1/repeatsLeft of the store are.
//
// Both only while [mostCost] allows the writes. A flushed segment, and what comes of a merge,
// is compared once with each other one.
const (
	repeatsPart  = 5
	repeatsLeft  = 40
	repeatsAfter = 30 * time.Second
)

// repeats is what is known of segments that repeat each other; one merge at a time uses it.
type repeats struct {
	compared map[uint64]bool
	having   map[model.RunID][]segment.Place // in the compared ones; some may be gone
	bytes    map[pair]int64
	found    time.Time // when flushed points were last found to repeat others
}

// pair is a segment, and another one that says so much of it again.
type pair struct{ of, by uint64 }

// repeated is a segment to rewrite without what others repeat of it.
type repeated struct {
	segment *segment.File
	by      []*segment.File
	bytes   int64
}

// compare looks at segments that are new, and forgets those that are gone.
func (k *Keeper) compare(live []*segment.File) {
	r := &k.repeats
	there := map[uint64]bool{}
	for _, s := range live {
		there[s.ID] = true
	}
	for p := range r.bytes {
		if !there[p.of] || !there[p.by] {
			delete(r.bytes, p)
		}
	}
	for id := range r.compared {
		if !there[id] {
			delete(r.compared, id)
		}
	}
	for _, s := range live {
		if r.compared[s.ID] {
			continue
		}
		for o := range r.add(s) {
			if there[o.ID] {
				k.compareTwo(s, o)
			}
		}
	}
}

// add takes a segment as compared, and gives those that have a run at the same time.
func (r *repeats) add(s *segment.File) map[*segment.File]bool {
	out := map[*segment.File]bool{}
	for at := range s.Runs {
		run := &s.Runs[at]
		if run.Points == 0 {
			continue
		}
		left := slices.DeleteFunc(r.having[run.Run], func(o segment.Place) bool { return !r.compared[o.Segment.ID] })
		for _, o := range left {
			if run.Overlaps(o.Ref()) {
				out[o.Segment] = true
			}
		}
		r.having[run.Run] = append(left, segment.Place{Segment: s, At: at})
	}
	r.compared[s.ID] = true
	return out
}

func (k *Keeper) compareTwo(s, o *segment.File) {
	mine, others, err := s.Repeats(o, func(e *segment.Entry) bool { return k.table.IsDeleted(e.Run) })
	if err != nil { // damage is for who reads the points, or merges them
		return
	}
	if mine > 0 {
		k.repeats.bytes[pair{s.ID, o.ID}] = mine
	}
	if others > 0 {
		k.repeats.bytes[pair{o.ID, s.ID}] = others
	}
	if s.Rewrites == 0 && mine+others > 0 {
		k.repeats.found = k.options.Now()
	}
}

// leaveOutRepeats rewrites one segment after the other without what others repeat of it;
// when somebody asked for it, also where that is not worth the writes.
func (k *Keeper) leaveOutRepeats(ctx context.Context, asked bool) error {
	for {
		live := k.settled()
		k.compare(live)
		most := k.mostRepeated(live, asked)
		if most == nil {
			return nil
		}
		inputs := []*segment.File{most.segment}
		out, err := k.merge(ctx, inputs, most.by)
		if err == nil {
			k.repeats.add(out) // it was compared with all that are known to repeat it
		} else if !k.files.SetAside(err, append(inputs, most.by...)) {
			return err
		}
	}
}

// mostRepeated is the segment of which the largest part is repeated, nil when none is worth
// its writes.
func (k *Keeper) mostRepeated(live []*segment.File, asked bool) (most *repeated) {
	best, all, room := 0.0, int64(0), k.room(live)
	var due *repeated
	for _, s := range live {
		r := k.repeatedOf(s, live)
		all += r.bytes
		cost, part := s.Size-r.bytes, float64(r.bytes)/float64(s.Size)
		if part <= best || cost > room || !asked && !k.affords(cost, mostCost) {
			continue
		}
		if best, due = part, r; asked || r.bytes*repeatsPart >= s.Size {
			most = r
		}
	}
	if most == nil && all*repeatsLeft > sizeOf(live) && k.options.Now().Sub(k.repeats.found) >= repeatsAfter {
		return due
	}
	return most
}

// repeatedOf is what others repeat of a segment.
func (k *Keeper) repeatedOf(s *segment.File, live []*segment.File) *repeated {
	r := &repeated{segment: s}
	for _, o := range live {
		if bytes := k.repeats.bytes[pair{s.ID, o.ID}]; bytes > 0 {
			r.bytes, r.by = r.bytes+bytes, append(r.by, o)
		}
	}
	r.bytes = min(r.bytes, s.Size)
	return r
}
