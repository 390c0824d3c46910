// Package queue joins writes that come at once, so that they share a transaction and its sync.
// In go functions that write; one of their callers runs those that wait, for all of them. It
// knows neither the database nor its errors: sqlite and postgres say how a transaction goes.
package queue

import (
	"context"
	"sync"
	"time"

	"github.com/kymogram/kymogram/server/internal/catalog/tables"
)

const (
	// maxTogether bounds a transaction, and so how long its writes wait for one another.
	maxTogether = 64
	// mostGather bounds how long one waits for the others where the disk is slow.
	mostGather = 2 * time.Millisecond
)

// Queue is the writes of a database that wait. One of the callers commits all of them.
type Queue struct {
	commit  func([]*Write)
	after   func(context.Context)
	turn    chan struct{} // held by whoever commits
	mu      sync.Mutex
	waiting []*Write
	// Callers that write one thing after the other come again soon. So a transaction waits
	// until as many are there as were around the last one, no longer than that one took.
	expected int
	took     time.Duration
	whole    chan struct{} // closed when they are there; nil when nobody asks
}

// New is an empty queue. commit runs a transaction, and sets the Err of each write. after does
// what can wait until their callers go on.
func New(commit func([]*Write), after func(context.Context)) *Queue {
	return &Queue{commit: commit, after: after, turn: make(chan struct{}, 1)}
}

// Write is one of them. It sees what those before it in the transaction did, and its failure
// undoes nothing but itself.
type Write struct {
	Act  string
	Come time.Time
	Err  error // what its caller gets

	ctx  context.Context
	run  func(tables.Tx) error
	done chan struct{}
}

// Run does it in a transaction. A caller that is gone wants nothing any more.
func (w *Write) Run(tx tables.Tx) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	return w.run(tx)
}

// Context is the caller's.
func (w *Write) Context() context.Context { return w.ctx }

// Do runs f in a transaction with those that wait with it.
func (q *Queue) Do(ctx context.Context, act string, f func(tables.Tx) error) error {
	w := &Write{Act: act, Come: time.Now(), ctx: ctx, run: f, done: make(chan struct{})}
	q.add(w)
	for {
		select {
		case <-w.done:
			return w.Err
		case q.turn <- struct{}{}:
			q.gather()
			begun, all := time.Now(), q.take()
			if len(all) > 0 {
				q.commit(all)
			}
			for _, one := range all {
				close(one.done)
			}
			q.served(len(all), time.Since(begun))
			q.after(ctx)
			<-q.turn
		}
	}
}

// Turn waits until nobody commits, and keeps others from it until it is released.
func (q *Queue) Turn() (release func()) {
	q.turn <- struct{}{}
	return func() { <-q.turn }
}

// Waiting is how many wait.
func (q *Queue) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

func (q *Queue) add(one *Write) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, one)
	if q.whole != nil && len(q.waiting) >= q.expected {
		close(q.whole)
		q.whole = nil
	}
}

// gather waits for those that are expected.
func (q *Queue) gather() {
	q.mu.Lock()
	if n := len(q.waiting); n == 0 || n >= q.expected {
		q.mu.Unlock()
		return
	}
	whole := make(chan struct{})
	q.whole = whole
	end := time.NewTimer(min(q.took, mostGather))
	q.mu.Unlock()
	defer end.Stop()
	select {
	case <-whole:
	case <-end.C:
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.whole = nil
}

// served notes what the next transaction may expect.
func (q *Queue) served(n int, took time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n > 0 {
		q.expected, q.took = min(n+len(q.waiting), maxTogether), took
	}
}

func (q *Queue) take() []*Write {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(q.waiting), maxTogether)
	taken := q.waiting[:n:n]
	q.waiting = q.waiting[n:]
	return taken
}
