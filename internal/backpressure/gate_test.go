package backpressure

import (
	"errors"
	"testing"
	"time"
)

// queue is a server that decided so many points.
type queue struct {
	decided uint64
	closed  bool
}

func (q queue) Decided() uint64 { return q.decided }
func (q queue) Closed() bool    { return q.closed }

func TestGate(t *testing.T) {
	g := &Gate{Capacity: 10, Patience: time.Nanosecond}
	for i, step := range []struct {
		server queue
		n      uint64
		want   Verdict
	}{
		{queue{}, 25, Passed}, // more than the capacity enters an empty queue
		{queue{}, 1, Dropped},
		{queue{decided: 15}, 1, Dropped},
		{queue{decided: 16}, 1, Passed},
		{queue{decided: 16}, 1, Dropped},
		{queue{decided: 16, closed: true}, 1, Closed},
		{queue{decided: 30}, 10, Passed}, // another process's points count as decided
	} {
		if got := g.Pass(step.server, step.n); got != step.want {
			t.Errorf("call %d: %v, want %v", i, got, step.want)
		}
	}
	if g.Dropped() != 3 {
		t.Errorf("%d points dropped", g.Dropped())
	}
	if got := new(Gate).Pass(queue{closed: true}, 1<<40); got != Passed {
		t.Errorf("the zero gate: %v", got)
	}
}

// What was dropped is told once, and again as long as telling fails.
func TestSettle(t *testing.T) {
	g := &Gate{Capacity: 1}
	g.dropped.Add(3)
	full := errors.New("the disk is full")
	if _, err := g.Settle(func(uint64) error { return full }); !errors.Is(err, full) {
		t.Errorf("a spool that takes nothing: %v", err)
	}
	var told []uint64
	tell := func(n uint64) error { told = append(told, n); return nil }
	for _, want := range []uint64{3, 0, 5} {
		if want == 5 {
			g.dropped.Add(2)
		}
		if total, err := g.Settle(tell); err != nil || total != want {
			t.Errorf("%d points, want %d: %v", total, want, err)
		}
	}
	if len(told) != 2 || told[0] != 3 || told[1] != 2 {
		t.Errorf("told %v", told)
	}
}
