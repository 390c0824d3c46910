package clickhouse

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/kymogram/kymogram/internal/model"
)

// request is a write on its way. Its act is done by the leader of its group, and its end waits
// for the group's commit.
type request struct {
	run    model.RunID
	lease  *lease
	points int
	act    func(l *lease, g *group) error

	lsn   uint64 // of the last try, 0 for none
	batch int    // its place in the change, see group.decide
	// position is that of the commit, 0 where nothing was written.
	position uint64

	lead chan struct{} // this request's caller leads the next group
	done chan struct{}
	err  error
}

func (r *request) end(err error) {
	r.err = err
	close(r.done)
}

// queue gathers requests into groups. One group is worked at a time, by one of those who wait:
// the first of the group.
type queue struct {
	every  time.Duration
	most   int // points of a group that is not waited for
	mu     sync.Mutex
	busy   bool // somebody leads
	wait   []*request
	points int
	full   chan struct{}
	last   time.Time // when the last insert began
}

func newQueue(every time.Duration, most int) *queue {
	return &queue{every: every, most: most, full: make(chan struct{}, 1)}
}

// do waits until a request is done, by work or by the caller's own hands.
func (q *queue) do(ctx context.Context, r *request, work func([]*request) (later []*request)) error {
	r.lead, r.done = make(chan struct{}, 1), make(chan struct{})
	q.mu.Lock()
	q.wait = append(q.wait, r)
	q.points += r.points
	if q.points >= q.most {
		select {
		case q.full <- struct{}{}:
		default:
		}
	}
	lead := !q.busy
	q.busy = true
	q.mu.Unlock()
	if lead {
		q.serve(work)
	}
	for {
		select {
		case <-r.done:
			return r.err
		case <-r.lead:
			q.serve(work)
		case <-ctx.Done():
			if q.leave(r) {
				return model.Errorf(model.CodeTimeout, "the write was not waited for: %v", ctx.Err())
			}
			<-r.done // it is being written, and refers to what the caller has
			return r.err
		}
	}
}

// leave takes a request out; false when it is at work already.
func (q *queue) leave(r *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := slices.Index(q.wait, r)
	if at < 0 {
		return false
	}
	q.wait = slices.Delete(q.wait, at, at+1)
	q.points -= r.points
	select {
	case <-r.lead: // it should have led
		q.pass()
	default:
	}
	return true
}

// serve works one group, and passes the lead on.
func (q *queue) serve(work func([]*request) (later []*request)) {
	q.pace()
	q.mu.Lock()
	taken := q.wait
	if q.points > 0 {
		q.last = time.Now()
	}
	q.wait, q.points = nil, 0
	select {
	case <-q.full:
	default:
	}
	q.mu.Unlock()
	later := work(taken)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wait = append(later, q.wait...)
	for _, r := range later {
		q.points += r.points
	}
	q.pass()
}

// pass makes the first who waits lead. The caller holds mu.
func (q *queue) pass() {
	if q.busy = len(q.wait) > 0; q.busy {
		q.wait[0].lead <- struct{}{}
	}
}

// pace waits until the next insert is due. Writes without points are not held up for it.
func (q *queue) pace() {
	q.mu.Lock()
	due := time.Until(q.last.Add(q.every))
	idle := q.points == 0 || q.points >= q.most
	q.mu.Unlock()
	if idle || due <= 0 {
		return
	}
	pause := time.NewTimer(due)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-q.full:
	}
}
