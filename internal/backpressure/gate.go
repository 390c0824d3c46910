// Package backpressure bounds the points that the server has not decided about.
//
// A log call asks [Gate.Pass] before it writes: the number of its points goes in, a
// [Verdict] comes out, at the latest when the gate's patience ends. How many points
// are decided the gate is told by its [Server], the run's status page. What was
// turned away is counted twice: in all, and as far as the spool was told of it, so
// that the server learns of every lost point once. The zero gate is open.
package backpressure

import (
	"sync"
	"sync/atomic"
	"time"
)

// poll is how often a call that waits looks at what is decided.
const poll = time.Millisecond

// Server is what the gate asks while a call waits.
type Server interface {
	Decided() uint64 // points that the server stored or refused, or that were given up
	Closed() bool    // no call can be let in any more
}

// Verdict is what becomes of the points of a call.
type Verdict int

// The verdicts.
const (
	Passed Verdict = iota
	Dropped
	Closed
)

// Gate lets points in. Set it up before the first call.
type Gate struct {
	Capacity uint64        // points; 0: no limit
	Patience time.Duration // how long a call waits for a full queue
	Endless  bool          // a call waits without a limit

	taken   atomic.Uint64 // points let in
	dropped atomic.Uint64 // points turned away

	mu      sync.Mutex
	settled uint64 // of the dropped those that the spool tells of
}

// Pass waits until n points find room.
func (g *Gate) Pass(server Server, n uint64) Verdict {
	if g.Capacity == 0 {
		return Passed
	}
	for deadline := (time.Time{}); ; time.Sleep(poll) {
		if g.enter(server.Decided(), n) {
			return Passed
		}
		if server.Closed() {
			return Closed
		}
		if g.Endless {
			continue
		}
		now := time.Now()
		if deadline.IsZero() {
			deadline = now.Add(g.Patience)
		}
		if now.Before(deadline) {
			continue
		}
		g.dropped.Add(n)
		return Dropped
	}
}

// enter takes room for n points. A call of more than the capacity enters an
// empty queue.
func (g *Gate) enter(decided, n uint64) bool {
	for {
		taken := g.taken.Load()
		waiting := taken - min(taken, decided)
		if waiting > 0 && waiting+n > g.Capacity {
			return false
		}
		if g.taken.CompareAndSwap(taken, taken+n) {
			return true
		}
	}
}

// Dropped is how many points were turned away.
func (g *Gate) Dropped() uint64 { return g.dropped.Load() }

// Settle has tell write what was turned away since it last succeeded; total is all
// that was ever, 0 where there is nothing new.
func (g *Gate) Settle(tell func(fresh uint64) error) (total uint64, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.dropped.Load()
	if n == g.settled {
		return 0, nil
	}
	if err := tell(n - g.settled); err != nil {
		return 0, err
	}
	g.settled = n
	return n, nil
}
