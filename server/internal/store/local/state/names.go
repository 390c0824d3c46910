package state

import (
	"hash/maphash"
	"slices"
)

// fewSeries are looked through; more have slots.
const fewSeries = 8

// names finds series by their text. It holds places only, a quarter of what a map
// with the texts as keys would.
type names struct {
	slots []uint32 // 1 + a place, by hash; 0: free
	count int
}

// find is the place of a text.
func (n *names) find(seed maphash.Seed, series []*Series, text string) (place uint32, ok bool) {
	if n.slots == nil {
		i := slices.IndexFunc(series, func(s *Series) bool { return s != nil && s.Text == text })
		return uint32(max(0, i)), i >= 0
	}
	for at := n.first(seed, text); ; at = (at + 1) % len(n.slots) {
		switch slot := n.slots[at]; {
		case slot == 0:
			return 0, false
		case series[slot-1].Text == text:
			return slot - 1, true
		}
	}
}

// add takes in a series that is not known; it lies in its place.
func (n *names) add(seed maphash.Seed, series []*Series, s *Series) {
	n.room(seed, series, 1)
	if n.slots != nil {
		n.put(seed, s)
	}
	n.count++
}

// room makes room for more series: at most three of four slots are taken.
func (n *names) room(seed maphash.Seed, series []*Series, more int) {
	if n.count+more <= fewSeries || (n.count+more)*4 <= len(n.slots)*3 {
		return
	}
	n.slots = make([]uint32, max(4, 2*len(n.slots), (n.count+more)*3/2))
	for _, s := range series {
		if s != nil && (n.count > 0) {
			n.put(seed, s)
		}
	}
}

func (n *names) put(seed maphash.Seed, s *Series) {
	at := n.first(seed, s.Text)
	for n.slots[at] != 0 {
		at = (at + 1) % len(n.slots)
	}
	n.slots[at] = s.ID + 1
}

func (n *names) first(seed maphash.Seed, text string) int {
	return int(maphash.String(seed, text) % uint64(len(n.slots)))
}
