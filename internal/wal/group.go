package wal

import "time"

// mostGather bounds the wait for others where the disk is slow.
const mostGather = 2 * time.Millisecond

// group are those that wait for the same sync. Callers that write one record after the
// other come again as soon as they are answered: a sync that begins at once has only those
// that came during the one before, and half of the callers, in turn, share each. So a sync
// waits until as many are there as were around the last one, while another one comes within
// the time that one took, and never for longer than mostGather. Whoever is alone never waits:
// nobody else was around.
//
//	A  ├─write─┤·········┆├── sync ──┤   ├─write─┤······┆├── sync ──┤
//	B     ├─write─┤······┆├── sync ──┤     ├─write─┤····┆├── sync ──┤
//	C         ├─write─┤··┆├── sync ──┤        ├─write─┤·┆├── sync ──┤
//
// Its fields are guarded by the log's lock.
type group struct {
	number   uint64        // of the syncs that have begun
	waiting  int           // for it
	expected int           // were around the last one
	took     time.Duration // by the last one
	whole    chan struct{} // closed when all that are expected wait; nil when nobody asks
}

// join is one more who waits; the number is for leave.
func (g *group) join() (number uint64) {
	g.waiting++
	if g.whole != nil && g.waiting >= g.expected {
		close(g.whole)
		g.whole = nil
	}
	return g.number + 1
}

// leave is one less, unless a sync has begun that has its record.
func (g *group) leave(number uint64) {
	if g.number+1 == number {
		g.waiting--
	}
}

// gather is what to wait for before a sync, nil for nothing.
func (g *group) gather() (whole <-chan struct{}) {
	if g.waiting >= g.expected {
		return nil
	}
	g.whole = make(chan struct{})
	return g.whole
}

// begin is how many a sync serves: all that wait.
func (g *group) begin() (served int) {
	served = g.waiting
	g.number, g.waiting = g.number+1, 0
	return served
}

// end is what the next sync is told of this one.
func (g *group) end(served int, took time.Duration) {
	g.expected, g.took = served+g.waiting, took
}
