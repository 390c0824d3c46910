package state

import "hash/maphash"

// names finds series by their text. It holds places only, a quarter of what a map
// with the texts as keys would.
type names struct {
	seed  maphash.Seed
	slots []uint32 // 1 + a place, by hash; 0: free
	count int
}

// find is the place of a text.
func (n *names) find(series []*Series, text string) (place uint32, ok bool) {
	if n.count == 0 {
		return 0, false
	}
	for at := n.first(text); ; at = (at + 1) % len(n.slots) {
		switch slot := n.slots[at]; {
		case slot == 0:
			return 0, false
		case series[slot-1].Text == text:
			return slot - 1, true
		}
	}
}

// add takes in a series that is not known; it lies in its place.
func (n *names) add(series []*Series, s *Series) {
	n.room(series, 1)
	n.put(s)
	n.count++
}

// room makes room for more series: at most three of four slots are taken.
func (n *names) room(series []*Series, more int) {
	if (n.count+more)*4 <= len(n.slots)*3 {
		return
	}
	if n.slots == nil {
		n.seed = maphash.MakeSeed()
	}
	n.slots = make([]uint32, max(4, 2*len(n.slots), (n.count+more)*3/2))
	for _, s := range series {
		if s != nil && (n.count > 0) {
			n.put(s)
		}
	}
}

func (n *names) put(s *Series) {
	at := n.first(s.Text)
	for n.slots[at] != 0 {
		at = (at + 1) % len(n.slots)
	}
	n.slots[at] = s.ID + 1
}

func (n *names) first(text string) int {
	return int(maphash.String(n.seed, text) % uint64(len(n.slots)))
}
