package upkeep

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/kymogram/kymogram/server/internal/store/local/segment"
)

// A client that sends its points again makes segments whose points later ones say again.
// Such a segment is rewritten without them, when that is worth it:
//
//   - at once, where it frees a fifth of it;
//   - when no more repeats came for a while, where it frees 1/repeatsLeft of it.
//
// Both only while [mostCost] allows the writes.
const (
	repeatsPart  = 5
	repeatsLeft  = 40
	repeatsAfter = 30 * time.Second
)

// repeats is what is known of segments that repeat each other; one merge at a time uses it.
type repeats struct {
	compared map[uint64]bool // nil until the first comparison
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

// compare looks at segments that are new, each once, and forgets those that are gone. What a
// start finds merged was compared before; who asks for it has all of them compared.
func (k *Keeper) compare(live []*segment.File, asked bool) {
	r, there := &k.repeats, map[uint64]bool{}
	starts := r.compared == nil && !asked
	if r.compared == nil || asked {
		r.compared, r.bytes = map[uint64]bool{}, map[pair]int64{}
	}
	fresh := map[*segment.File]bool{}
	for _, s := range live {
		there[s.ID] = true
		if !r.compared[s.ID] && !(starts && s.Rewrites > 0) {
			fresh[s] = true
		}
		r.compared[s.ID] = true
	}
	maps.DeleteFunc(r.compared, func(id uint64, _ bool) bool { return !there[id] })
	maps.DeleteFunc(r.bytes, func(p pair, _ int64) bool { return !there[p.of] || !there[p.by] })
	for _, m := range k.meetings(live, fresh, asked) {
		k.compareTwo(m)
	}
}

func (k *Keeper) compareTwo(m *meeting) {
	parts, err := m.segment.Repeats(m.other, m.runs)
	if err != nil { // damage is for who reads the points, or merges them
		return
	}
	mine, others := int64(parts[0]*float64(m.bytes)), int64(parts[1]*float64(m.bytes))
	if mine > 0 {
		k.repeats.bytes[pair{m.segment.ID, m.other.ID}] = mine
	}
	if others > 0 {
		k.repeats.bytes[pair{m.other.ID, m.segment.ID}] = others
	}
	if m.segment.Rewrites == 0 && mine+others > 0 {
		k.repeats.found = k.options.Now()
	}
}

// leaveOutRepeats rewrites one segment after the other without what others repeat of it;
// when somebody asked for it, also where that is not worth the writes.
func (k *Keeper) leaveOutRepeats(ctx context.Context, asked bool) error {
	for again := false; ; again = true {
		live := k.settled()
		k.compare(live, asked && !again)
		most := k.mostRepeated(live, asked)
		if most == nil {
			return nil
		}
		inputs := []*segment.File{most.segment}
		out, err := k.merge(ctx, inputs, most.by)
		if err == nil {
			k.repeats.compared[out.ID] = true // with all that are known to repeat it
		} else if !k.files.SetAside(err, append(inputs, most.by...)) {
			return err
		}
	}
}

// mostRepeated is the segment of which the largest part is repeated, nil when none is worth
// its writes.
func (k *Keeper) mostRepeated(live []*segment.File, asked bool) (most *repeated) {
	best, room := 1.0/repeatsPart, k.room(live)
	switch {
	case asked:
		best = 0
	case k.options.Now().Sub(k.repeats.found) >= repeatsAfter:
		best = 1.0 / repeatsLeft
	}
	for _, r := range k.allRepeated(live) {
		cost, part := r.segment.Size-r.bytes, float64(r.bytes)/float64(r.segment.Size)
		if part >= best && cost <= room && (asked || k.affords(cost, mostCost)) {
			best, most = part, r
		}
	}
	return most
}

// allRepeated are the segments of which others repeat something, in the order of the list.
func (k *Keeper) allRepeated(live []*segment.File) (out []*repeated) {
	if len(k.repeats.bytes) == 0 {
		return nil
	}
	byID := make(map[uint64]*repeated, len(live))
	for _, s := range live {
		byID[s.ID] = &repeated{segment: s}
	}
	for p, bytes := range k.repeats.bytes {
		of, by := byID[p.of], byID[p.by]
		if of == nil || by == nil { // set aside
			continue
		}
		of.by, of.bytes = append(of.by, by.segment), min(of.segment.Size, of.bytes+bytes)
	}
	for _, s := range live {
		if r := byID[s.ID]; r.bytes > 0 {
			slices.SortFunc(r.by, func(a, b *segment.File) int { return cmp.Compare(a.ID, b.ID) })
			out = append(out, r)
		}
	}
	return out
}
