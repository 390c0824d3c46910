package upkeep

import (
	"iter"
	"maps"
	"slices"

	"github.com/kymogram/kymogram/server/internal/store/local/segment"
)

// Merges have three limits, which a store's owner can count on:
//
//   - A segment has a largest size.
//   - A merge needs a fifth of the store as free space, or a sixteenth of the largest
//     segment in a store that is smaller than that.
//   - What is written stays below four times what is kept over the store's life.
//
// The last one decides when to merge. A flush writes a point once. Flushed segments are
// merged by eight, and what comes of that by 64: two more times. The rest is for what is
// deleted or said again.
const (
	manyMore    = 8    // times as many segments, once they were merged or while they are tiny
	tinyPart    = 4096 // of the largest segment: flushed segments that have less together are tiny
	floorPart   = 16   // of the largest segment: what a merge may always take
	roomShare   = 5    // a merge takes 1/roomShare of the store
	deadShare   = 5    // a segment is rewritten when 1/deadShare of it is of deleted runs
	mostlyDead  = 2    // … also when nothing else may be written: it costs less than it frees
	regularCost = 3.5  // bytes written for one that is kept
	mostCost    = 4
)

// room is the most that the inputs of a merge have.
func (k *Keeper) room(live []*segment.File) int64 {
	return min(k.options.SegmentBytes, max(k.options.SegmentBytes/floorPart, sizeOf(live)/roomShare))
}

func sizeOf(list []*segment.File) (n int64) {
	for _, s := range list {
		n += s.Size
	}
	return n
}

// dead is how much of a segment is of deleted runs.
func (k *Keeper) dead(s *segment.File) int64 {
	return s.DeadBytes(k.table.Deletions(), k.table.IsDeleted)
}

// affords reports whether so many bytes may be written, at so many for one that is kept.
func (k *Keeper) affords(bytes int64, cost float64) bool {
	life := k.files.Life()
	return float64(life.Written+bytes) <= cost*float64(sizeOf(k.files.Live())+life.Freed)
}

// next are the segments to merge next.
func (k *Keeper) next(live []*segment.File) []*segment.File {
	for _, s := range live {
		dead := k.dead(s)
		if dead*mostlyDead > s.Size || dead*deadShare > s.Size && k.affords(s.Size-dead, mostCost) {
			return []*segment.File{s}
		}
	}
	room := k.room(live)
	byRewrites := map[int][]*segment.File{}
	for _, s := range live {
		if s.Size <= room/2 { // a larger one would be most of what comes out
			byRewrites[s.Rewrites] = append(byRewrites[s.Rewrites], s)
		}
	}
	for _, n := range slices.Sorted(maps.Keys(byRewrites)) {
		list := fitting(byRewrites[n], room)
		if k.enough(list, n, room) && (n == 0 || k.affords(sizeOf(list), regularCost)) {
			return list
		}
	}
	return nil
}

// enough reports whether segments that were rewritten so often are worth a merge.
func (k *Keeper) enough(list []*segment.File, rewrites int, room int64) bool {
	many, size := k.options.CompactFiles, sizeOf(list)
	if rewrites > 0 || size < k.options.SegmentBytes/tinyPart {
		many *= manyMore
	}
	return len(list) >= many || len(list) > 1 && size > room/2
}

// fitting are the first segments that a merge has room for.
func fitting(list []*segment.File, room int64) []*segment.File {
	n := 0
	for size := int64(0); n < len(list) && size+list[n].Size <= room; n++ {
		size += list[n].Size
	}
	return list[:n]
}

// batches cuts a list into what a merge has room for each. One that is larger is left as it
// is, unless it is of an older version or has points of deleted runs.
func (k *Keeper) batches(live []*segment.File) iter.Seq[[]*segment.File] {
	room := k.room(live)
	return func(yield func([]*segment.File) bool) {
		for len(live) > 0 {
			n := max(1, len(fitting(live, room)))
			batch := slices.Clone(live[:n])
			live = live[n:]
			if done := n == 1 && batch[0].Rewrites > 0 && k.dead(batch[0]) == 0; !done && !yield(batch) {
				return
			}
		}
	}
}
