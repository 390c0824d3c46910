package kymogram

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kymogram/kymogram/internal/spool"
)

// ErrorStrategy says what becomes of errors of the delivery.
type ErrorStrategy string

// The strategies. Whatever is chosen, [Options.OnError] hears every error and
// [Run.SenderErrors] keeps them.
const (
	ErrorsSilent       ErrorStrategy = "silent"
	ErrorsWarn         ErrorStrategy = "warn"           // to Options.Log
	ErrorsRaiseOnLog   ErrorStrategy = "raise_on_log"   // returned by the next log call
	ErrorsRaiseOnClose ErrorStrategy = "raise_on_close" // joined to Close's
)

const (
	keptErrors = 1000
	watchEvery = time.Second
)

// failures keeps what the delivery complains about.
type failures struct {
	strategy ErrorStrategy
	hear     func(error)
	warn     func(string)

	due atomic.Pointer[error] // of raise_on_log

	mu       sync.Mutex
	kept     []error
	reported uint64
	evicted  uint64
	first    error // of raise_on_close
	told     map[string]bool
}

func newFailures(o *Options) *failures {
	return &failures{
		strategy: o.ErrorStrategy, hear: o.OnError, told: map[string]bool{},
		warn: func(text string) { o.Log.Warn(text) },
	}
}

// report takes an error; the same words count once until another came.
func (f *failures) report(err error) {
	f.mu.Lock()
	if f.told[err.Error()] {
		f.mu.Unlock()
		return
	}
	f.told[err.Error()] = true
	f.reported++
	if len(f.kept) == keptErrors {
		f.kept, f.evicted = f.kept[1:], f.evicted+1
	}
	f.kept = append(f.kept, err)
	if f.first == nil {
		f.first = err
	}
	f.mu.Unlock()
	switch f.strategy {
	case ErrorsWarn, ErrorsRaiseOnClose:
		f.warn(err.Error())
	case ErrorsRaiseOnLog:
		f.due.CompareAndSwap(nil, &err)
	}
	if f.hear != nil {
		f.hear(err)
	}
}

// passed forgets what was told, so that it is told again when it comes back.
func (f *failures) passed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.told)
}

// raise gives a log call the error that it is to return, once.
func (f *failures) raise() error {
	if f.due.Load() == nil {
		return nil
	}
	if err := f.due.Swap(nil); err != nil {
		return *err
	}
	return nil
}

// atClose is what Close joins to its own error.
func (f *failures) atClose() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.strategy != ErrorsRaiseOnClose {
		return nil
	}
	return f.first
}

func (f *failures) counts() (reported, evicted uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reported, f.evicted
}

// SenderErrors gives the errors of the delivery since the last call, oldest
// first: of those that were not asked for the newest 1,000 are kept.
func (r *Run) SenderErrors() []error {
	f := r.errors
	f.mu.Lock()
	defer f.mu.Unlock()
	out := f.kept
	f.kept = nil
	return out
}

// watch looks once a second at what the deliverer says and at what finds no room.
func (r *Run) watch(ctx context.Context) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			r.look()
		}
	}
}

// look is one round of watch.
func (r *Run) look() {
	r.lookMu.Lock()
	defer r.lookMu.Unlock()
	over := r.w.Lost()
	if over.Waiting.Total() > 0 || over.Records > 0 {
		r.errors.report(fmt.Errorf("the spool %s takes no more: %s; new points wait in memory", r.folder.Path, over.Why))
	}
	if n := over.Dropped.Total(); n > 0 && r.dropsTold.CompareAndSwap(false, true) {
		r.errors.report(fmt.Errorf("the spool %s (%s) and the memory behind it are full: points are dropped and counted", r.folder.Path, over.Why))
	}
	if err := r.gate.settle(r); err != nil && !errors.Is(err, ErrClosed) {
		r.errors.report(err)
	}
	r.tellVideos()
	page, err := r.w.Status().Read()
	if err != nil {
		return
	}
	r.keepPage(page)
	r.tellShared(&page)
	switch {
	case page.State == spool.StateConnected || page.State == spool.StateDelivered:
		r.errors.passed()
	case page.Error != "" && r.tellNow(&page):
		r.errors.report(fmt.Errorf("%s: %s", r.opts.Server, page.Error))
	}
	if page.Refused > r.refusedTold.Swap(page.Refused) {
		r.errors.report(fmt.Errorf("%d points were refused for good; %s keeps their records", page.Refused, r.folder.RejectedPath(r.w.ID)))
	}
}

// tellVideos says once that many videos wait, and again when they had become few.
func (r *Run) tellVideos() {
	limit := r.opts.Rendering.UploadWarnThreshold
	waiting := r.videosWaiting()
	if many := limit >= 0 && waiting > limit; r.videosTold.Swap(many) != many && many {
		r.errors.report(fmt.Errorf("%d videos wait to be uploaded, more than %d (Rendering.UploadWarnThreshold)", waiting, limit))
	}
}

// tellNow: a refusal at once; an outage when it lasted for as many tries as the
// options say, as points only wait meanwhile.
func (r *Run) tellNow(page *spool.Page) bool {
	return page.State == spool.StateRefused || page.Failures > uint64(r.opts.MaxSendRetries)
}
