package kymogram

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kymogram/kymogram/internal/backpressure"
	"github.com/kymogram/kymogram/internal/clock"
	"github.com/kymogram/kymogram/internal/failure"
	"github.com/kymogram/kymogram/internal/job"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/series"
	"github.com/kymogram/kymogram/internal/spool"
	"github.com/kymogram/kymogram/internal/uplink"
	"github.com/kymogram/kymogram/internal/video"
)

const (
	// silentLimit is how long Close waits for a server that does not answer.
	silentLimit = 800 * time.Millisecond
	pollEvery   = 5 * time.Millisecond
	// tidyLimit is how long Close waits for its delivered folder to be removed.
	tidyLimit = 500 * time.Millisecond
)

// Run is an open run. Its methods are safe for concurrent use.
type Run struct {
	w       *spool.Writer
	folder  *spool.Folder
	request model.OpenRequest
	opened  *model.OpenResult // nil while offline
	starts  *series.Starts
	opts    Options
	clock   *clock.Clock

	mu    sync.RWMutex            // making a series, the first video, and envs
	plain *series.Index[Series]   // series without labels, by metric
	all   *series.Index[Series]   // by the text of their key
	envs  map[string]model.EnvEnd // where RL environments stand

	points map[string]*spool.Series // of LogPoint, by the text of their key

	envCalls sync.Pool // of *envCall

	errors  failure.Log
	gate    backpressure.Gate
	guarded bool // log calls ask the gate or the errors first
	videos  atomic.Pointer[video.Renderer]
	falls   atomic.Uint64
	pageMu  sync.Mutex
	page    spool.Page // as it was read last

	attributes, envAttributes atomic.Uint64
	dropsTold, fallTold       atomic.Bool
	videosTold                atomic.Bool
	refusedTold               atomic.Uint64
	sharedTold, sharedEnvs    atomic.Uint64
	lookMu                    sync.Mutex              // one look at a time
	sharers                   map[model.WriterID]bool // told of

	uplink *uplink.Deliverer // nil: an agent delivers
	stop   context.CancelFunc

	background sync.WaitGroup
	ended      chan struct{}
	close      sync.Once
	result     error
}

// start delivers the folder in the background, unless an agent does.
func (r *Run) start() {
	ctx, cancel := context.WithCancel(context.Background())
	r.stop, r.ended = cancel, make(chan struct{})
	r.background.Go(func() { r.watch(ctx) })
	r.background.Go(func() { r.describeMachine(ctx) })
	if r.opts.EndOnSignal {
		signals := caught()
		defer func() { go r.endOnSignal(ctx, signals) }() // once all has started: it ends the run
	}
	if r.opts.NoUplink {
		close(r.ended)
		return
	}
	r.uplink = uplink.New(r.folder, uplink.Options{Kind: spool.KindProcess, Version: Version, Log: r.opts.Log, Env: r.opts.env})
	go func() {
		defer close(r.ended)
		if err := r.uplink.Run(ctx); err != nil {
			r.opts.Log.Warn("the uplink of this process ended; `kymogram sync` delivers what is left", "error", err)
		}
	}()
}

// ID is the run's ULID: the server's when it answered, else the one made here,
// which stays valid as an alias.
func (r *Run) ID() string {
	if r.opened != nil {
		return r.opened.Run.String()
	}
	return r.request.LocalRun.String()
}

// Name is the run's name.
func (r *Run) Name() string {
	if r.opened != nil {
		return r.opened.RunName
	}
	return r.request.RunName
}

// Project is the run's workspace and project.
func (r *Run) Project() (workspace, project string) { return r.request.Workspace, r.request.Project }

// Server is the address that the run is delivered to.
func (r *Run) Server() string { return r.opts.Server }

// Offline reports whether the run began without an answer of the server.
func (r *Run) Offline() bool { return r.opened == nil }

// SpoolDir is where the points lie until they are delivered.
func (r *Run) SpoolDir() string { return r.folder.Path }

// Flush waits until the server has everything that was logged before it, or
// returns an [UndeliveredError] when ctx ends or the server does not answer. With
// durable it first makes the spool safe from power loss.
func (r *Run) Flush(ctx context.Context, durable bool) error {
	over := r.w.Drain()
	if durable {
		if err := r.w.Sync(); err != nil {
			return closedError(err)
		}
	}
	last := r.w.Last()
	if last == 0 {
		return ErrClosed
	}
	if r.await(ctx, last, math.MaxInt64) && over.Waiting == 0 && over.Dropped == 0 {
		return nil
	}
	return r.undelivered(over)
}

// await waits until the mark reaches last, as long as the server answers and at
// most for limit.
func (r *Run) await(ctx context.Context, last uint64, limit time.Duration) bool {
	began := time.Now()
	heard, patience := began, silentLimit
	if job.Env(r.opts.env).EndsMachine() {
		patience = r.opts.CloseTimeout
	}
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		page, err := r.w.Status().Read()
		now := time.Now()
		switch {
		case err == nil && page.Mark >= last:
			return true
		case err == nil && page.State == spool.StateConnected && page.Delivering(now):
			heard = now
		}
		if now.Sub(heard) > patience || now.Sub(began) > limit {
			return false
		}
		if r.uplink != nil {
			r.uplink.Wake()
		}
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
	}
}

func (r *Run) undelivered(over spool.Overflow) error {
	e := &UndeliveredError{Folder: r.folder.Path, Lost: over.Dropped}
	page, err := r.w.Status().Read()
	if err == nil {
		e.Reason = page.Error
	}
	if backlog, err := spool.Count(r.folder.WriterPath(r.w.ID), r.w.ID, page.Mark); err == nil {
		e.Points = backlog.Points
	} else if errors.Is(err, os.ErrNotExist) && e.Lost == 0 {
		return nil // delivered at this moment
	}
	return e
}

// Close ends the run as finished. It waits up to Options.CloseTimeout while the
// server answers; without a connection it returns within a second with an
// [UndeliveredError]: nothing is lost, `kymogram sync` delivers it.
func (r *Run) Close(ctx context.Context) error { return r.end(ctx, model.StatusFinished, "") }

// Fail ends the run as failed, when cause is not nil; else it is Close. With the cause
// of a context of [signal.NotifyContext], as [context.Cause] gives it, it is [Run.Interrupt].
func (r *Run) Fail(ctx context.Context, cause error) error {
	if cause == nil {
		return r.Close(ctx)
	}
	return r.end(ctx, model.StatusFailed, signalOf(cause))
}

func (r *Run) end(ctx context.Context, status model.RunStatus, by string) error {
	r.close.Do(func() {
		r.result = r.finish(ctx, model.Update{Op: model.OpClose, Text: string(status), Signal: by})
		r.stop()
		<-r.ended
		r.background.Wait()
		if page, err := r.w.Status().Read(); err == nil {
			r.keepPage(page) // Metrics after Close
		}
		r.result = errors.Join(r.result, r.w.Status().Close())
	})
	return r.result
}

func (r *Run) finish(ctx context.Context, end model.Update) error {
	ctx, cancel := context.WithTimeout(ctx, r.opts.CloseTimeout)
	defer cancel()
	deadline, _ := ctx.Deadline()
	if v := r.videos.Load(); v != nil && !v.Close(time.Until(deadline)) {
		r.opts.Log.Warn("not every frame was encoded in time: its video ends before; give Close more time")
	}
	r.settleDropped()
	end.TimeNs = time.Now().UnixNano()
	err := r.w.Updates([]model.Update{end})
	if err != nil {
		return err
	}
	over := r.makeRoom(ctx)
	last := r.w.Last()
	if _, err := r.w.Close(); err != nil {
		return err
	}
	r.look() // what the deliverer said last
	// What is still in memory ends with the process.
	over.Dropped += over.Points
	if !r.await(ctx, last, r.opts.CloseTimeout) || over.Dropped > 0 {
		return errors.Join(r.undelivered(over), r.failedDelivery())
	}
	r.tidy(ctx)
	return r.failedDelivery()
}

// makeRoom gives a full spool the time to empty itself, while the server answers.
func (r *Run) makeRoom(ctx context.Context) spool.Overflow {
	over := r.w.Drain()
	for ; over.Waiting > 0 && ctx.Err() == nil; over = r.w.Drain() {
		if !r.await(ctx, r.w.Last(), r.opts.CloseTimeout) {
			break
		}
	}
	return over
}

// tidy waits for the delivered folder to be gone, so that the program leaves
// nothing behind: shortly for its points, longer for its videos, which nobody
// uploads when this process is over.
func (r *Run) tidy(ctx context.Context) {
	limit := tidyLimit
	if r.videosWaiting() > 0 {
		limit = cmp.Or(r.opts.Rendering.UploadCloseTimeout, r.opts.CloseTimeout)
	}
	for deadline := time.Now().Add(limit); r.uplink != nil && ctx.Err() == nil && time.Now().Before(deadline); time.Sleep(pollEvery) {
		if _, err := os.Stat(r.folder.WriterPath(r.w.ID)); errors.Is(err, os.ErrNotExist) {
			return
		}
		r.uplink.Wake()
	}
	if left := r.videosWaiting(); left > 0 && r.uplink != nil {
		r.errors.Report(fmt.Errorf("%d videos are not uploaded yet; `kymogram sync` uploads them from %s", left, r.folder.Path))
	}
}

// videosWaiting counts the videos that lie in the spool.
func (r *Run) videosWaiting() int {
	if r.videos.Load() == nil {
		return 0
	}
	files, err := spool.Renderings(r.folder.WriterPath(r.w.ID))
	if err != nil {
		return 0
	}
	return len(slices.DeleteFunc(files, func(f *spool.RenderingFile) bool { return f.State == spool.RenderingEncoding }))
}
