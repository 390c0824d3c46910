// Package live hands changes of runs to readers: a bounded log with rising ids,
// subscriptions that continue behind an id, and a reset where events were lost.
//
// In: [Hub.Publish], from ingest for each stored batch, here or on another server. Out: the events of
// [Hub.Subscribe], for httpapi. Both know this package only through interfaces of
// their own, which cmd wires.
//
//	log, an entry a run:   93:B  95:A  97:C  98:D      floor 90: older ids have left it
//	reader at 95, of all:              97:C  98:D  ─▶  two events, then it is at 98
//	reader at 80:                                  ─▶  a reset: read everything again
//
// A newer change of a run replaces its entry, so a reader that was away gets the
// newest state of each run, never a backlog. What always holds: Publish never
// waits for a reader; a reader gets at most one event of a run a beat, and each
// change that it asked for, or a reset in place of what was lost.
//
// Start reading at [Hub.Run].
package live

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/kymogram/kymogram/internal/model"
)

// Totals tells what an event says of a run.
type Totals interface {
	Totals(ctx context.Context, run model.RunID) (Summary, error)
}

// Summary is where a run stands.
type Summary struct {
	Points uint64
	Series uint64
	LastNs int64
	Status model.RunStatus
}

// Options are what code sets; a zero field takes its default.
type Options struct {
	// Beat is the time between two deliveries. With the page's own request after
	// an event a point is drawn well within the second that is promised.
	Beat time.Duration // default 200 ms
	// Kept is how many events the log holds for readers that come back.
	Kept int // default 4,096: a browser is back within seconds
	// Buffer is how many events wait for one reader; what does not fit comes later.
	Buffer int // default 16: there may be thousands of readers
	Now    func() time.Time
	Log    *slog.Logger
}

// change is an entry of the log.
type change struct {
	id uint64
	model.RunChange
}

// Hub is the log and its readers. It is safe for concurrent use.
type Hub struct {
	options Options
	totals  Totals
	wake    chan struct{} // holds a token while there is something to deliver

	mu     sync.Mutex
	last   uint64   // id of the newest change
	log    []change // rising ids, one entry a run: a newer change replaces the older
	floor  uint64   // ids up to here may be missing from the log
	subs   map[*subscription]struct{}
	closed bool
}

// The ids of a hub start at the clock's milliseconds, and all of them have the same low bits,
// by chance. So an id from before a restart, or of another server, is not taken for one of its
// own: its reader gets a reset.
const (
	tagBits = 20
	step    = 1 << tagBits
)

// New makes a hub.
func New(totals Totals, options Options) *Hub {
	if options.Beat <= 0 {
		options.Beat = 200 * time.Millisecond
	}
	if options.Kept <= 0 {
		options.Kept = 4096
	}
	if options.Buffer <= 0 {
		options.Buffer = 16
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	start := uint64(options.Now().UnixMilli())<<tagBits | rand.Uint64N(step)
	return &Hub{
		options: options, totals: totals, last: start, floor: start,
		wake: make(chan struct{}, 1), subs: map[*subscription]struct{}{},
	}
}

// Publish notes that a run has news. It never blocks.
func (h *Hub) Publish(c model.RunChange) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last += step
	if i := h.find(c.Run); i >= 0 {
		h.log = slices.Delete(h.log, i, i+1)
	}
	h.log = append(h.log, change{h.last, c})
	if len(h.log) > h.options.Kept {
		h.floor = h.log[0].id
		h.log = slices.Delete(h.log, 0, 1)
	}
	h.ring()
}

// Reset tells every reader to read everything again: changes may have been lost.
func (h *Hub) Reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last += step
	h.floor, h.log = h.last, nil
	h.ring()
}

// find looks from the end: the runs that write now are there.
func (h *Hub) find(run model.RunID) int {
	for i := len(h.log) - 1; i >= 0; i-- {
		if h.log[i].Run == run {
			return i
		}
	}
	return -1
}

func (h *Hub) ring() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// Run delivers until ctx ends; then every subscription's channel is closed.
func (h *Hub) Run(ctx context.Context) error {
	defer h.close()
	beat := time.NewTicker(h.options.Beat)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-h.wake:
		}
		h.deliver(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-beat.C:
		}
	}
}

func (h *Hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for s := range h.subs {
		close(s.events)
	}
	clear(h.subs)
}

// deliver gives every reader what it lacks. What a run's numbers are is asked
// once a beat and only for runs that somebody watches.
func (h *Hub) deliver(ctx context.Context) {
	todo, upto := h.due()
	sums := map[model.RunID]Summary{}
	for _, changes := range todo {
		for _, c := range changes {
			if _, ok := sums[c.Run]; ok {
				continue
			}
			sum, err := h.totals.Totals(ctx, c.Run)
			if err != nil && model.CodeOf(err) != model.CodeNotFound && model.CodeOf(err) != model.CodeRunDeleted {
				h.options.Log.Debug("totals of a run", "run", c.Run, "err", err)
			}
			sums[c.Run] = sum
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for s, changes := range todo {
		if _, ok := h.subs[s]; ok {
			if !s.send(changes, sums, upto) {
				h.ring() // again at the next beat
			}
		}
	}
}

// due lists the changes up to an id that each reader has not got yet.
func (h *Hub) due() (todo map[*subscription][]change, upto uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	todo = map[*subscription][]change{}
	for s := range h.subs {
		s.reset = s.reset || s.at < h.floor
		if s.reset || s.at < h.last {
			todo[s] = s.missing(h)
		}
	}
	return todo, h.last
}

// subscription is one reader.
type subscription struct {
	filter model.LiveFilter
	events chan model.LiveEvent
	at     uint64 // everything up to here was sent, or was not for this reader
	reset  bool   // events were lost: the next one is a reset
}

// Subscribe delivers the events behind the one with the id after; 0 means new
// ones only. The first is a reset when those between are gone. A slow reader
// gets a reset instead of what it missed. The channel is closed when the hub
// ends; cancel ends the subscription and may be called twice.
func (h *Hub) Subscribe(f model.LiveFilter, after uint64) (events <-chan model.LiveEvent, cancel func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &subscription{filter: f, events: make(chan model.LiveEvent, h.options.Buffer), at: after}
	switch {
	case after == 0:
		s.at = h.last
	case after < h.floor || after > h.last || after%step != h.last%step:
		s.at, s.reset = h.last, true
	}
	if h.closed {
		close(s.events)
		return s.events, func() {}
	}
	h.subs[s] = struct{}{}
	if s.reset || s.at < h.last {
		h.ring()
	}
	return s.events, func() { h.cancel(s) }
}

func (h *Hub) cancel(s *subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.subs, s)
}

// missing lists the changes behind the reader's place that its filter selects.
func (s *subscription) missing(h *Hub) []change {
	if s.reset {
		return nil
	}
	from, _ := slices.BinarySearchFunc(h.log, s.at+1, func(c change, id uint64) int {
		if c.id < id {
			return -1
		}
		if c.id > id {
			return 1
		}
		return 0
	})
	var out []change
	for _, c := range h.log[from:] {
		if s.wants(&c.RunChange) {
			out = append(out, c)
		}
	}
	return out
}

func (s *subscription) wants(c *model.RunChange) bool {
	if len(s.filter.Runs) > 0 {
		return slices.Contains(s.filter.Runs, c.Run)
	}
	return c.Workspace == s.filter.Workspace && c.Project == s.filter.Project
}

// send passes on what fits and reports whether that was all. A reader whose
// buffer is full keeps its place and gets the newest state of each run later;
// when that place has left the log, a reset. The hub's lock is held.
func (s *subscription) send(changes []change, sums map[model.RunID]Summary, upto uint64) bool {
	if s.reset {
		if !s.offer(model.LiveEvent{ID: upto, Reset: true}) {
			return false
		}
		s.reset, s.at = false, upto
		return true
	}
	for _, c := range changes {
		sum := sums[c.Run]
		event := model.LiveEvent{ID: c.id, Run: c.Run, Points: sum.Points, Series: sum.Series, LastNs: sum.LastNs, Status: sum.Status}
		if !s.offer(event) {
			return false
		}
		s.at = c.id
	}
	s.at = upto
	return true
}

func (s *subscription) offer(e model.LiveEvent) bool {
	select {
	case s.events <- e:
		return true
	default:
		return false
	}
}
