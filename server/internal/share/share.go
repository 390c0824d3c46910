// Package share divides what callers have in common, such as the memory for
// answers and the memory for requests, so that no caller can take all of it.
//
// In: [Pool.Acquire] of a caller that needs so much. Out: a lease, or an error
// with CodeBusy after some patience. Who a caller is comes with the context
// ([WithCaller]): a key, or an address where keys are not checked.
//
// What always holds: leases together are at most the pool's size, and a quarter more
// for small first leases of callers that hold nothing: however many others share all
// of the pool, a caller who asks for little gets it. Leases of one
// caller are at most a quarter of it, or one lease of the widest kind ([NewWide]).
// Callers take turns, whatever each of them asks for: who was served last comes last, so
// that a caller waits for one lease of each other, not for all that they have asked for.
// The leases of one caller are served in order, and one that has its quarter does not
// hold up the others.
//
// Start reading at [Pool.Acquire].
package share

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kymogram/kymogram/internal/model"
)

// parts is how many callers share a pool at least.
const parts = 4

// Patience is how long a request waits for its share before it is refused.
const Patience = 10 * time.Second

type callerKey struct{}

// WithCaller returns a context that carries who asks.
func WithCaller(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, callerKey{}, id)
}

// Caller is who asks, "" when nobody said.
func Caller(ctx context.Context) string {
	id, _ := ctx.Value(callerKey{}).(string)
	return id
}

// Pool is what callers share. It is safe for concurrent use.
type Pool struct {
	what       string // for people
	size, part int64
	small      int64 // the largest lease of the reserve
	patience   time.Duration

	mu      sync.Mutex
	callers map[string]*caller // that hold or wait
	waiting []*wait            // by age
	turn    uint64             // leases granted
	stats   Stats
}

type caller struct {
	held    int64
	waiting int
	turn    uint64 // of the last lease, or of the first request
}

// Stats are a pool's figures, for /metrics.
type Stats struct {
	Used    int64 // now
	Waiting int   // requests that wait now
	// WaitingFor is what they want together.
	WaitingFor int64
	Refused    uint64 // since the start
}

type wait struct {
	caller   *caller
	id       string
	n        int64
	ready    chan struct{} // closed when granted; nil where nobody waits for it
	released bool
}

// New makes a pool. what names it in errors; patience 0 takes [Patience].
func New(what string, size int64, patience time.Duration) *Pool {
	if patience == 0 {
		patience = Patience
	}
	return &Pool{what: what, size: size, part: max(1, size/parts), small: size / parts / first, patience: patience, callers: map[string]*caller{}}
}

// NewTurns is NewWide for a pool of a few turns, of which every lease is one: its reserve
// is a quarter as many, for callers that have none.
func NewTurns(what string, size, widest int64, patience time.Duration) *Pool {
	p := NewWide(what, size, widest, patience)
	p.small = 1
	return p
}

// NewWide is New for a pool whose widest lease may be more than a quarter of it: a caller
// can hold one such lease, so that what it holds is counted as it is.
func NewWide(what string, size, widest int64, patience time.Duration) *Pool {
	p := New(what, size, patience)
	p.part = max(p.part, min(widest, size))
	return p
}

// Part is the most that one caller can hold; a request for more gets this much.
func (p *Pool) Part() int64 { return p.part }

// Stats reads the figures.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.Waiting = len(p.waiting)
	for _, w := range p.waiting {
		s.WaitingFor += w.n
	}
	return s
}

// Acquire waits for a share of n. release may be called twice.
func (p *Pool) Acquire(ctx context.Context, n int64) (release func(), err error) {
	return p.AcquireWithin(ctx, p.patience, n)
}

// AcquireWithin is Acquire with a patience of its own.
func (p *Pool) AcquireWithin(ctx context.Context, limit time.Duration, n int64) (release func(), err error) {
	p.mu.Lock()
	w := p.enter(ctx, n)
	release = func() { p.release(w) }
	if len(p.waiting) == 0 && p.may(w) && p.fits(w) { // as nearly always
		p.take(w)
		p.mu.Unlock()
		return release, nil
	}
	w.ready = make(chan struct{})
	p.waiting = append(p.waiting, w)
	p.grant()
	p.mu.Unlock()
	patience := time.NewTimer(limit)
	defer patience.Stop()
	select {
	case <-w.ready:
		return release, nil
	case <-ctx.Done():
		err = model.Errorf(model.CodeUnavailable, "the request ended while it waited for its turn")
	case <-patience.C:
		err = p.busy()
	}
	if !p.leave(w, err) {
		return release, nil // it was granted meanwhile
	}
	return nil, err
}

// Try takes a share of n now, or fails.
func (p *Pool) Try(ctx context.Context, n int64) (release func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.enter(ctx, n)
	if !p.may(w) || !p.fits(w) {
		p.stats.Refused++
		p.forget(w)
		return nil, p.busy()
	}
	p.take(w)
	return func() { p.release(w) }, nil
}

// enter makes a request of a caller, who becomes known with it.
func (p *Pool) enter(ctx context.Context, n int64) *wait {
	id := Caller(ctx)
	c := p.callers[id]
	if c == nil {
		c = &caller{turn: p.turn}
		p.callers[id] = c
	}
	c.waiting++
	return &wait{caller: c, id: id, n: min(max(n, 1), p.part)}
}

// forget ends the waiting of a request that gets nothing.
func (p *Pool) forget(w *wait) {
	w.caller.waiting--
	p.drop(w)
}

// drop lets go of a caller that neither holds nor waits.
func (p *Pool) drop(w *wait) {
	if w.caller.held == 0 && w.caller.waiting == 0 {
		delete(p.callers, w.id)
	}
}

func (p *Pool) busy() *model.Error {
	return model.Errorf(model.CodeBusy, "the server is busy: there is no more %s for this request now", p.what).
		WithHint("Send it again in a few seconds. One key gets at most %s of the server's %s.", p.partText(), p.what)
}

// partText says how much of the pool one caller may hold.
func (p *Pool) partText() string {
	if p.part <= max(1, p.size/parts) {
		return "a quarter"
	}
	return fmt.Sprintf("%d %%", p.part*100/p.size)
}

// leave gives up waiting, unless the share was granted.
func (p *Pool) leave(w *wait, why error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.waiting, w)
	if i < 0 {
		return false
	}
	p.waiting = slices.Delete(p.waiting, i, i+1)
	p.forget(w)
	if model.CodeOf(why) == model.CodeBusy {
		p.stats.Refused++
	}
	p.grant() // a smaller one may have stood behind it
	return true
}

func (p *Pool) release(w *wait) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.released {
		return
	}
	w.released = true
	p.stats.Used -= w.n
	w.caller.held -= w.n
	p.drop(w)
	p.grant()
}

func (p *Pool) take(w *wait) {
	p.turn++
	p.stats.Used += w.n
	w.caller.held += w.n
	w.caller.waiting--
	w.caller.turn = p.turn
	if w.ready != nil {
		close(w.ready)
	}
}

// first is how many small first leases the reserve has.
const first = 64

// may says whether the caller's quarter has space for a lease.
func (p *Pool) may(w *wait) bool { return w.caller.held+w.n <= p.part }

// fits says whether the pool has space for a lease: its size, or the reserve for the
// small first lease of a caller.
func (p *Pool) fits(w *wait) bool {
	return p.stats.Used+w.n <= p.size || p.isSmallFirst(w) && p.stats.Used+w.n <= p.size+p.size/parts
}

func (p *Pool) isSmallFirst(w *wait) bool {
	return w.caller.held == 0 && w.n <= p.small
}

// grant serves who waits. The one whose turn it is holds up the others while the pool
// has no space for it: else large requests would never come to their turn. What the
// reserve has space for is not held up.
func (p *Pool) grant() {
	for {
		w := p.next((*Pool).may)
		if w != nil && !p.fits(w) {
			w = p.next(func(p *Pool, w *wait) bool { return p.isSmallFirst(w) && p.fits(w) })
		}
		if w == nil {
			return
		}
		p.waiting = slices.DeleteFunc(p.waiting, func(o *wait) bool { return o == w })
		p.take(w)
	}
}

// next is the request whose caller was served longest ago, of those that pass.
func (p *Pool) next(passes func(*Pool, *wait) bool) (next *wait) {
	for _, w := range p.waiting {
		if (next == nil || w.caller.turn < next.caller.turn) && passes(p, w) {
			next = w
		}
	}
	return next
}
