package postgres

import (
	"sync"

	"github.com/kymogram/kymogram/internal/model"
)

const (
	// mostSent is how many runs are told of at once; the others come with the next.
	mostSent = 4_000
	// mostWaiting bounds what is remembered while PostgreSQL is away.
	mostWaiting = 100_000
)

// outbox holds the news that other servers were not told of yet, each once, the oldest first.
type outbox struct {
	ready chan struct{} // holds a token while there is something

	mu      sync.Mutex
	waiting []model.RunChange
	known   map[model.RunChange]struct{}
	lost    bool // there were too many
}

// newOutbox tells of a loss first: what this server did before it was killed may not be known.
func newOutbox() *outbox {
	o := &outbox{ready: make(chan struct{}, 1), known: map[model.RunChange]struct{}{}, lost: true}
	o.ring()
	return o
}

func (o *outbox) put(all ...model.RunChange) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range all {
		if _, ok := o.known[c]; ok {
			continue
		}
		if len(o.waiting) == mostWaiting {
			o.waiting, o.lost = nil, true
			clear(o.known)
		}
		o.known[c] = struct{}{}
		o.waiting = append(o.waiting, c)
	}
	o.ring()
}

// take gives what is next to be told, and says whether something before it was lost.
func (o *outbox) take() (next []model.RunChange, lost bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := min(len(o.waiting), mostSent)
	next, o.waiting = o.waiting[:n:n], o.waiting[n:]
	for _, c := range next {
		delete(o.known, c)
	}
	lost, o.lost = o.lost, false
	if len(o.waiting) > 0 {
		o.ring()
	}
	return next, lost
}

// giveBack takes what could not be told.
func (o *outbox) giveBack(all []model.RunChange, lost bool) {
	o.mu.Lock()
	o.lost = o.lost || lost
	o.mu.Unlock()
	o.put(all...)
}

func (o *outbox) ring() {
	select {
	case o.ready <- struct{}{}:
	default:
	}
}
