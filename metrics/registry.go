package metrics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Options are what New takes; the zero value is fine.
type Options struct {
	// Capacity is how many metrics wait for a handler before more are dropped;
	// 10,000 when 0.
	Capacity int
	// Log hears of a handler's first failure; slog.Default() when nil.
	Log *slog.Logger
	// Now is the clock; time.Now when nil.
	Now func() time.Time
}

// Registry sends the metrics of each group to its handler. Its methods are safe
// for concurrent use, and on a nil Registry they do nothing.
type Registry struct {
	opts   Options
	routes atomic.Pointer[routes]

	mu  sync.Mutex
	all []*outlet // of every handler that was configured and not replaced
}

// routes is replaced as a whole.
type routes struct {
	groups   map[string][]*outlet
	fallback []*outlet
	heard    bool // some group has a handler
}

// Counts tells what became of the metrics that a handler was given.
type Counts struct {
	Handler                           Handler
	Emitted, Failed, Dropped, Waiting uint64
}

// New makes a Registry that forgets everything.
func New(opts Options) *Registry {
	if opts.Capacity <= 0 {
		opts.Capacity = 10_000
	}
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	r := &Registry{opts: opts}
	r.routes.Store(&routes{})
	return r
}

// Configure sends the metrics of the groups to a handler; without a group, those
// of all groups that have none. A nil handler and [Null] forget them.
func (r *Registry) Configure(h Handler, groups ...string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.routes.Load()
	next := &routes{groups: maps.Clone(was.groups), fallback: was.fallback}
	if next.groups == nil {
		next.groups = map[string][]*outlet{}
	}
	to := r.outlets(h)
	if len(groups) == 0 {
		next.fallback = to
	}
	for _, g := range groups {
		next.groups[g] = to
	}
	next.heard = len(next.fallback) > 0
	for _, outlets := range next.groups {
		next.heard = next.heard || len(outlets) > 0
	}
	r.routes.Store(next)
	r.retire(next)
}

// outlets are the ways to a handler: several for a fan-out, none for Null.
func (r *Registry) outlets(h Handler) (out []*outlet) {
	switch h := h.(type) {
	case nil, null:
		return nil
	case fanOut:
		for _, each := range h {
			out = append(out, r.outlets(each)...)
		}
		return out
	}
	for _, o := range r.all {
		if reflect.TypeOf(h).Comparable() && reflect.TypeOf(o.handler).Comparable() && o.handler == h {
			return []*outlet{o}
		}
	}
	o := newOutlet(h, r.opts)
	r.all = append(r.all, o)
	return []*outlet{o}
}

// retire lets the handlers go that no group has any more; what waits for them is
// still delivered.
func (r *Registry) retire(used *routes) {
	r.all = slices.DeleteFunc(r.all, func(o *outlet) bool {
		for _, some := range used.groups {
			if slices.Contains(some, o) {
				return false
			}
		}
		if slices.Contains(used.fallback, o) {
			return false
		}
		o.end()
		return true
	})
}

// PutMetric publishes a metric, in the group [Reserved] when none is given. It
// never waits. More than one group publishes it in each.
func (r *Registry) PutMetric(name string, value float64, group ...string) {
	if r == nil || !r.routes.Load().heard {
		return
	}
	if len(group) == 0 {
		r.put(Reserved, name, value)
		return
	}
	for _, g := range group {
		r.put(g, name, value)
	}
}

func (r *Registry) put(group, name string, value float64) {
	to := r.routes.Load()
	outlets, ok := to.groups[group]
	if !ok {
		outlets = to.fallback
	}
	if len(outlets) == 0 {
		return
	}
	d := Data{Time: r.opts.Now(), Group: group, Name: name, Value: value}
	for _, o := range outlets {
		o.put(d)
	}
}

// Counts lists the handlers in use.
func (r *Registry) Counts() (out []Counts) {
	for _, o := range r.outletsNow() {
		out = append(out, o.counts())
	}
	return out
}

func (r *Registry) outletsNow() []*outlet {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}

// Flush waits until the handlers took what was published before, or ctx ends.
func (r *Registry) Flush(ctx context.Context) error {
	var errs []error
	for _, o := range r.outletsNow() {
		errs = append(errs, o.flush(ctx))
	}
	return errors.Join(errs...)
}

// Close flushes and forgets all handlers. Its error tells of metrics that a
// handler did not take before ctx ended; the handler's goroutine then ends when
// the handler lets it.
func (r *Registry) Close(ctx context.Context) error {
	if r == nil {
		return nil
	}
	err := r.Flush(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.routes.Store(&routes{})
	r.retire(&routes{})
	return err
}

// outlet is the way to one handler.
type outlet struct {
	handler Handler
	log     *slog.Logger
	queue   chan item
	quit    chan struct{}
	once    sync.Once

	emitted, failed, dropped atomic.Uint64
}

// item is a metric, or a mark that Flush waits for.
type item struct {
	Data
	reached chan<- struct{}
}

// newOutlet starts the goroutine that calls the handler: a user's call may block
// for ever, so it can belong to nobody's Run.
func newOutlet(h Handler, opts Options) *outlet {
	o := &outlet{handler: h, log: opts.Log, queue: make(chan item, opts.Capacity), quit: make(chan struct{})}
	go o.work()
	return o
}

func (o *outlet) put(d Data) {
	select {
	case o.queue <- item{Data: d}:
	default:
		if o.dropped.Add(1) == 1 {
			o.log.Warn("a metric handler is too slow: metrics are dropped", "handler", fmt.Sprintf("%T", o.handler))
		}
	}
}

func (o *outlet) work() {
	for {
		select {
		case i := <-o.queue:
			o.take(i)
		case <-o.quit:
			o.drain()
			return
		}
	}
}

func (o *outlet) drain() {
	for {
		select {
		case i := <-o.queue:
			o.take(i)
		default:
			return
		}
	}
}

func (o *outlet) take(i item) {
	if i.reached != nil {
		close(i.reached)
		return
	}
	if err := o.emit(i.Data); err != nil {
		if o.failed.Add(1) == 1 {
			o.log.Warn("a metric handler failed; further failures are counted", "handler", fmt.Sprintf("%T", o.handler), "error", err)
		}
		return
	}
	o.emitted.Add(1)
}

func (o *outlet) emit(d Data) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return o.handler.Emit(d)
}

func (o *outlet) flush(ctx context.Context) error {
	reached := make(chan struct{})
	select {
	case o.queue <- item{reached: reached}:
	case <-ctx.Done():
		return o.late(ctx)
	}
	select {
	case <-reached:
		return nil
	case <-ctx.Done():
		return o.late(ctx)
	}
}

func (o *outlet) late(ctx context.Context) error {
	return fmt.Errorf("%d metrics wait for the handler %T: %w", len(o.queue), o.handler, ctx.Err())
}

func (o *outlet) end() { o.once.Do(func() { close(o.quit) }) }

func (o *outlet) counts() Counts {
	return Counts{
		Handler: o.handler, Emitted: o.emitted.Load(), Failed: o.failed.Load(), Dropped: o.dropped.Load(),
		Waiting: uint64(len(o.queue)),
	}
}
