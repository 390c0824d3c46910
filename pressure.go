package kymogram

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kymogram/kymogram/internal/model"
)

// Backpressure says what a log call does when too much waits for the server.
type Backpressure string

// The strategies.
const (
	// BackpressureSpool: the disk is the queue, and no call waits. The default.
	BackpressureSpool Backpressure = "spool"
	// BackpressureDropNew drops the call's points, and counts them.
	BackpressureDropNew Backpressure = "drop_new"
	// BackpressureBlock waits for room, without a limit.
	BackpressureBlock Backpressure = "block"
	// BackpressureRaise returns [ErrQueueFull].
	BackpressureRaise Backpressure = "raise"
)

// ErrQueueFull is returned by log calls under [BackpressureRaise].
var ErrQueueFull = errors.New("the queue is full: the server has not acked as many points as Options.QueueCapacity")

const gatePoll = time.Millisecond

// gate bounds the points that the server has not decided about. The zero gate is
// open.
type gate struct {
	strategy Backpressure
	capacity uint64
	patience time.Duration

	taken   atomic.Uint64 // points let in
	dropped atomic.Uint64 // points turned away

	mu      sync.Mutex
	settled uint64 // of the dropped those that the spool tells of
}

// pass waits for room for n points; drop says that they are to be dropped.
func (g *gate) pass(r *Run, n uint64) (drop bool, err error) {
	if g.capacity == 0 {
		return false, nil
	}
	for deadline := (time.Time{}); ; time.Sleep(gatePoll) {
		if g.enter(r, n) {
			return false, nil
		}
		if r.w.Closed() {
			return false, ErrClosed
		}
		if g.strategy == BackpressureBlock {
			continue
		}
		now := time.Now()
		if deadline.IsZero() {
			deadline = now.Add(g.patience)
		}
		if now.Before(deadline) {
			continue
		}
		g.dropped.Add(n)
		if g.strategy == BackpressureRaise {
			return true, fmt.Errorf("%w (%d)", ErrQueueFull, g.capacity)
		}
		return true, nil
	}
}

// enter takes room for n points. A call of more than the capacity enters an
// empty queue.
func (g *gate) enter(r *Run, n uint64) bool {
	page, err := r.w.Status().Read()
	if err != nil {
		page = r.lastPage()
	}
	decided := page.Acked + page.Refused + page.Dropped.Total()
	for {
		taken := g.taken.Load()
		waiting := taken - min(taken, decided)
		if waiting > 0 && waiting+n > g.capacity {
			return false
		}
		if g.taken.CompareAndSwap(taken, taken+n) {
			return true
		}
	}
}

// settle tells the server, by way of the spool, what was turned away.
func (g *gate) settle(r *Run) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.dropped.Load()
	if n == g.settled {
		return nil
	}
	update := model.Update{Op: model.OpDropped, TimeNs: time.Now().UnixNano(), Count: n - g.settled, Text: "the queue was full"}
	if err := r.w.Updates([]model.Update{update}); err != nil {
		return closedError(err)
	}
	g.settled = n
	return fmt.Errorf("the queue was full: %d points were dropped so far; raise Options.QueueCapacity, or use BackpressureSpool", n)
}

// admit is what every log call of n points asks first.
func (r *Run) admit(n int) (drop bool, err error) {
	if err := r.errors.raise(); err != nil {
		return true, err
	}
	return r.gate.pass(r, uint64(n))
}
