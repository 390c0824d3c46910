package uplink

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/spool"
)

// ErrHeld means that another program delivers the folder and stays.
var ErrHeld = errors.New("another program delivers this spool")

// Options say how a folder is delivered.
type Options struct {
	Kind    spool.HolderKind
	Version string // of this program
	// Server and Key, when set, are used for every writer instead of its own.
	Server, Key string
	// Idle ends an agent that long after no writer is open and nothing is left;
	// 0: never.
	Idle time.Duration
	// Once ends the delivery as soon as everything is acked that was there when it
	// found it; programs that go on may have logged more since.
	Once bool
	Log  *slog.Logger
	Env  func(string) string // nil: os.Getenv
	// BeforeFree, when set, is called with a writer before records of it that were
	// delivered are deleted, so that another reader can read them first.
	BeforeFree func(model.WriterID)
	MaxBackoff time.Duration // 0: 15 s
}

func (o *Options) env() func(string) string {
	if o.Env != nil {
		return o.Env
	}
	return os.Getenv
}

func (o *Options) beforeFree(id model.WriterID) {
	if o.BeforeFree != nil {
		o.BeforeFree(id)
	}
}

func (o *Options) maxBackoff() time.Duration {
	if o.MaxBackoff > 0 {
		return o.MaxBackoff
	}
	return lastBackoff
}

const (
	scanEvery     = 250 * time.Millisecond
	takeoverLimit = 5 * time.Second
	drainLimit    = 2 * time.Second
	retryBroken   = time.Minute
)

// Deliverer delivers the writers of one folder. Make it with [New].
type Deliverer struct {
	folder *spool.Folder
	opts   Options
	conns  connections
	waker  chan struct{}
	ticks  ticks

	mu      sync.Mutex
	writers map[model.WriterID]*delivery
	broken  map[model.WriterID]time.Time // when a folder that cannot be read is looked at again
	done    Totals
	over    bool // ended because everything that was there is acked

	observers observers
}

// Totals counts what a deliverer brought to its end, over all writers.
type Totals struct {
	Writers int    `json:"writers"` // with something left to deliver
	Acked   uint64 `json:"points_delivered"`
	Refused uint64 `json:"points_refused"`
	Closed  int    `json:"writers_closed"` // their programs ended, and nothing is left of them
	// Renderings counts videos that were uploaded.
	Renderings int64  `json:"renderings_uploaded"`
	Error      string `json:"error,omitempty"` // the last one that still holds a writer up
}

// New makes a deliverer of a folder; Run starts it.
func New(folder *spool.Folder, opts Options) *Deliverer {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	return &Deliverer{
		folder: folder, opts: opts, waker: make(chan struct{}, 1), ticks: ticks{time.Now()},
		writers: map[model.WriterID]*delivery{}, broken: map[model.WriterID]time.Time{},
		observers: observers{jobs: map[job]*observer{}},
	}
}

// Folder is what it delivers.
func (d *Deliverer) Folder() *spool.Folder { return d.folder }

// Wake makes the deliverer look and send now.
func (d *Deliverer) Wake() {
	select {
	case d.waker <- struct{}{}:
	default:
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range d.writers {
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}

// Totals counts what was delivered so far.
func (d *Deliverer) Totals() Totals {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := d.done
	for _, w := range d.writers {
		acked, refused := w.own()
		out.Acked += acked
		out.Refused += refused
		out.Renderings += w.uploaded.Load()
		if !w.idle.Load() {
			out.Writers++
			if text := cmp.Or(w.counters().Error, w.trouble()); text != "" {
				out.Error = text
			}
		}
	}
	out.Writers += len(d.broken)
	return out
}

// Run takes the folder and delivers it. It returns nil when its work is done
// (Once, Idle) or ctx ends, and ErrHeld when another program keeps the folder.
func (d *Deliverer) Run(ctx context.Context) error {
	defer d.conns.close()
	for {
		hold, err := d.take(ctx)
		if err != nil || hold == nil {
			return err
		}
		over, err := d.deliver(ctx, hold)
		err = errors.Join(err, hold.Release())
		if !over || err != nil {
			return err
		}
		d.opts.Log.Info("another program takes the spool over", "folder", d.folder.Path)
		if d.opts.Kind != spool.KindProcess && !d.opts.Once {
			return ErrHeld
		}
		if !sleep(ctx, time.Second) {
			return nil
		}
	}
}

// Holder is this program as a holder of the folder.
func (d *Deliverer) holder() spool.Holder {
	return spool.Holder{PID: os.Getpid(), Version: d.opts.Version, Protocol: spool.Protocol, Kind: d.opts.Kind}
}

// take gets the folder, asking its holder for it where that is right. It gives
// nil without an error when ctx ends.
func (d *Deliverer) take(ctx context.Context) (*spool.Hold, error) {
	me := d.holder()
	var began, asked time.Time
	goals := map[model.WriterID]uint64{}
	for {
		hold, err := d.folder.Take(me)
		if hold != nil || err != nil {
			return hold, err
		}
		holder, held, err := d.folder.Held()
		switch {
		case err != nil || !held:
			// Between two holders; look again.
		case d.opts.Kind == spool.KindProcess:
		case !me.Outranks(holder) && !d.opts.Once:
			return nil, fmt.Errorf("%w (%s, process %d)", ErrHeld, holder.Kind, holder.PID)
		case me.Outranks(holder) && time.Since(asked) > time.Second:
			asked = time.Now()
			if began.IsZero() {
				began = asked
			}
			if !d.opts.Once && asked.Sub(began) > takeoverLimit {
				return nil, fmt.Errorf("%w and does not give it up (%s, process %d)", ErrHeld, holder.Kind, holder.PID)
			}
			if err := d.folder.Ask(me); err != nil {
				return nil, err
			}
		case d.opts.Once && d.nothingLeft(goals):
			d.setOver()
			return nil, nil
		}
		if !sleep(ctx, 50*time.Millisecond) {
			return nil, nil
		}
	}
}

// Over tells of a delivery that ran Once whether it ended because everything that
// was there is acked.
func (d *Deliverer) Over() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.over
}

func (d *Deliverer) setOver() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
}

// nothingLeft looks at the status pages that another deliverer writes. goals are
// the last sequences that writers had when they were first seen.
func (d *Deliverer) nothingLeft(goals map[model.WriterID]uint64) bool {
	ids, err := d.folder.Writers()
	if err != nil {
		return false
	}
	left := false
	for _, id := range ids {
		mark, backlog, err := leftOf(d.folder, id)
		if err != nil {
			return false
		}
		if _, ok := goals[id]; !ok {
			goals[id] = mark + backlog.Records
		}
		left = left || mark < goals[id] || backlog.Renderings > 0 || !backlog.Live
	}
	return !left
}

// Left counts what a writer's folder holds that no server has acked.
func Left(folder *spool.Folder, id model.WriterID) (spool.Backlog, error) {
	_, backlog, err := leftOf(folder, id)
	return backlog, err
}

// leftOf gives the mark, too.
func leftOf(folder *spool.Folder, id model.WriterID) (mark uint64, backlog spool.Backlog, err error) {
	dir := folder.WriterPath(id)
	status, err := spool.OpenStatus(dir)
	if err != nil {
		return 0, backlog, err
	}
	defer status.Close()
	page, err := status.Read()
	if err != nil {
		return 0, backlog, err
	}
	backlog, err = spool.Count(dir, id, page.Mark)
	if err != nil {
		return page.Mark, backlog, err
	}
	videos, err := spool.Renderings(dir)
	for _, v := range videos {
		if v.State != spool.RenderingEncoding || !backlog.Live {
			backlog.Renderings++
		}
	}
	return page.Mark, backlog, err
}

func sleep(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// deliver runs a delivery for every writer until its work is done, ctx ends, or
// the folder is taken over.
func (d *Deliverer) deliver(ctx context.Context, hold *spool.Hold) (over bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	stop := make(chan struct{})
	defer func() {
		close(stop)
		if over {
			time.AfterFunc(drainLimit, cancel)
		} else {
			cancel()
		}
		group.Wait()
		cancel()
	}()
	if err := d.folder.Sweep(time.Now()); err != nil {
		d.opts.Log.Warn("sweep", "error", err)
	}
	idleSince, beat, short := time.Now(), time.Time{}, false
	for {
		if hold.Asked() {
			return true, nil
		}
		err := d.scan(ctx, &group, stop)
		if err != nil && !tooManyFiles(err) {
			return false, err
		}
		if err != nil && !short {
			d.opts.Log.Warn("out of file descriptors: writers wait in the spool until others end. Raise the limit (ulimit -n): a writer takes three", "error", err)
		}
		short = err != nil
		if time.Since(beat) >= time.Second {
			beat = time.Now()
			d.beat(beat)
		}
		busy, left := d.state()
		busy, left = busy || short, left || short
		if d.opts.Once && !busy {
			d.setOver()
			return false, nil
		}
		if left {
			idleSince = time.Now()
		}
		if d.opts.Idle > 0 && time.Since(idleSince) >= d.opts.Idle {
			return false, nil
		}
		if !d.nap(ctx) {
			return false, nil
		}
	}
}

// tooManyFiles: it passes when a writer ends, of this program or of others.
func tooManyFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

func (d *Deliverer) nap(ctx context.Context) bool {
	timer := time.NewTimer(d.ticks.next(d.scanEvery()))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-d.waker:
	case <-timer.C:
	}
	return true
}

// scanEvery is shorter for a sync, which a person waits for.
func (d *Deliverer) scanEvery() time.Duration {
	if d.opts.Once {
		return scanEvery / 10
	}
	return scanEvery
}

// state: busy while something that is there, or was at first, is not acked, left
// while a writer has a folder at all.
func (d *Deliverer) state() (busy, left bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range d.writers {
		behind := !w.idle.Load() && (!d.opts.Once || w.counters().Mark < w.goal.Load())
		busy = busy || behind || !w.live.Load() || w.videos.Load() > 0
	}
	return busy, len(d.writers) > 0
}

func (d *Deliverer) beat(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range d.writers {
		w.note(w.status.Heartbeat(now))
	}
}

// scan starts a delivery for every writer that has none.
func (d *Deliverer) scan(ctx context.Context, group *sync.WaitGroup, stop chan struct{}) error {
	ids, err := d.folder.Writers()
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for id := range d.broken {
		if !slices.Contains(ids, id) {
			delete(d.broken, id)
		}
	}
	for _, id := range ids {
		if _, ok := d.writers[id]; ok || time.Now().Before(d.broken[id]) {
			continue
		}
		w, err := d.newDelivery(id, stop)
		if err != nil {
			if errors.Is(err, os.ErrNotExist) {
				continue // removed between the listing and now
			}
			if tooManyFiles(err) {
				return err
			}
			d.opts.Log.Error("a writer's folder cannot be read", "writer", id, "error", err)
			d.broken[id] = time.Now().Add(retryBroken)
			continue
		}
		delete(d.broken, id)
		d.writers[id] = w
		d.observe(ctx, w, group, stop)
		group.Add(1)
		go func() {
			defer group.Done()
			d.work(ctx, w)
		}()
	}
	return nil
}

func (d *Deliverer) newDelivery(id model.WriterID, stop chan struct{}) (*delivery, error) {
	dir := d.folder.WriterPath(id)
	open, err := spool.ReadOpen(dir)
	if err != nil {
		return nil, err
	}
	if open.Open.Writer != id {
		return nil, fmt.Errorf("open.json names the writer %s", open.Open.Writer)
	}
	status, err := spool.OpenStatus(dir)
	if err != nil {
		return nil, err
	}
	page, err := status.Read()
	if err != nil {
		status.Close()
		return nil, err
	}
	page.Error, page.Answer = "", nil
	if err := d.folder.List(&open.Open); err != nil { // a program before the index made it
		d.opts.Log.Warn("a writer is not in the index", "writer", id, "error", err)
	}
	w := &delivery{
		folder: d.folder, id: id, dir: dir, open: open, opts: &d.opts, conns: &d.conns, log: d.opts.Log, ticks: d.ticks,
		status: status, page: page, ackedBefore: page.Acked, refusedBefore: page.Refused, wake: make(chan struct{}, 1), stop: stop,
	}
	w.after = d.before
	w.live.Store(true)
	w.goal.Store(math.MaxUint64)
	w.note(status.Heartbeat(time.Now()))
	return w, nil
}

// work runs one delivery to its end and counts it.
func (d *Deliverer) work(ctx context.Context, w *delivery) {
	ctx, cancel := context.WithCancel(ctx)
	var durable sync.WaitGroup
	if d.opts.Once {
		durable.Go(w.aim)
	}
	durable.Go(func() { w.durable(ctx) })
	durable.Go(func() { w.renderings(ctx) })
	err := w.run(ctx)
	cancel()
	durable.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.writers, w.id)
	acked, refused := w.own()
	d.done.Acked += acked
	d.done.Refused += refused
	d.done.Renderings += w.uploaded.Load()
	if err == nil {
		d.done.Closed++
	}
	if text := cmp.Or(w.counters().Error, w.trouble()); err != nil && text != "" && (!w.idle.Load() || w.videos.Load() > 0) {
		d.done.Error = text // what held it up to the end
	}
	w.status.Close()
	if err != nil && !errors.Is(err, errStopped) {
		d.opts.Log.Error("a writer cannot be delivered", "writer", w.id, "error", err)
		d.broken[w.id] = time.Now().Add(retryBroken)
	}
}

// Writers lists the writers that are being delivered.
func (d *Deliverer) Writers() []model.WriterID {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.writers))
}
