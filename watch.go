package kymogram

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/rule"
	"github.com/kymogram/kymogram/internal/spool"
)

const watchEvery = time.Second

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
		r.errors.Report(fmt.Errorf("the spool %s takes no more: %s; new points wait in memory", r.folder.Path, over.Why))
	}
	if n := over.Dropped.Total(); n > 0 && r.dropsTold.CompareAndSwap(false, true) {
		r.errors.Report(fmt.Errorf("the spool %s (%s) and its memory are full: points are dropped and counted", r.folder.Path, over.Why))
	}
	r.settleDropped()
	r.tellVideos()
	page, err := r.w.Status().Read()
	if err != nil {
		return
	}
	r.keepPage(page)
	r.tellShared(&page)
	switch {
	case page.State == spool.StateConnected || page.State == spool.StateDelivered:
		r.errors.Forget()
	case page.Error != "" && r.tellNow(&page):
		r.errors.Report(fmt.Errorf("%s: %s", r.opts.Server, page.Error))
	}
	if page.Refused > r.refusedTold.Swap(page.Refused) {
		r.errors.Report(fmt.Errorf("%d points were refused for good; %s keeps their records", page.Refused, r.folder.RejectedPath(r.w.ID)))
	}
}

// settleDropped tells the server, by way of the spool, of points that found no room.
func (r *Run) settleDropped() {
	total, err := r.gate.Settle(func(fresh uint64) error {
		update := model.Update{Op: model.OpDropped, TimeNs: time.Now().UnixNano(), Count: fresh, Text: "the queue was full"}
		return r.w.Updates([]model.Update{update})
	})
	switch {
	case errors.Is(err, spool.ErrClosed):
	case err != nil:
		r.errors.Report(err)
	case total > 0:
		r.errors.Report(fmt.Errorf("the queue was full: %d points were dropped so far; raise Options.QueueCapacity, or use BackpressureSpool", total))
	}
}

// tellVideos says once that many videos wait, and again when they had become few.
func (r *Run) tellVideos() {
	limit := r.opts.Rendering.UploadWarnThreshold
	waiting := r.videosWaiting()
	if many := limit >= 0 && waiting > limit; r.videosTold.Swap(many) != many && many {
		r.errors.Report(fmt.Errorf("%d videos wait to be uploaded, more than %d (Rendering.UploadWarnThreshold)", waiting, limit))
	}
}

// tellNow: a refusal at once; an outage when it lasted for as many tries as the
// options say, as points only wait meanwhile.
func (r *Run) tellNow(page *spool.Page) bool {
	return page.State == spool.StateRefused || page.Failures > uint64(r.opts.MaxSendRetries)
}

// tellShared reports who else logs environments of this process, each other
// process once: their steps mix.
func (r *Run) tellShared(page *spool.Page) {
	if page.Shared <= r.sharedTold.Swap(page.Shared) {
		return
	}
	all, err := spool.ReadShared(r.folder.WriterPath(r.w.ID))
	if err != nil || len(all) == 0 { // the folder is delivered and gone
		r.errors.Report(fmt.Errorf("%d environments of this process are logged by another one too: %s", page.Shared, ownEnvironments))
		r.sharedEnvs.Store(max(r.sharedEnvs.Load(), page.Shared))
		return
	}
	envs, by := map[string]bool{}, map[model.WriterID][]model.SharedWith{}
	for _, s := range all {
		envs[s.Env] = true
		by[s.Writer] = append(by[s.Writer], s)
	}
	r.sharedEnvs.Store(uint64(len(envs)))
	for _, s := range all {
		if known := r.sharers[s.Writer]; !known {
			r.sharers[s.Writer] = true
			r.errors.Report(sharedError(by[s.Writer]))
		}
	}
}

const ownEnvironments = "their steps mix; let each process log environments of its own"

// sharedError names the environments that one other process logs.
func sharedError(with []model.SharedWith) error {
	s, more, rank := with[0], "", ""
	if len(with) > 1 {
		more = fmt.Sprintf(" (and %d more)", len(with)-1)
	}
	if s.Rank != nil {
		rank = fmt.Sprintf(" (rank %d)", *s.Rank)
	}
	return fmt.Errorf("the environment %q%s is also logged by process %d on %s%s: %s", s.Env, more, s.PID, s.Host, rank, ownEnvironments)
}

// tellOdd warns once of a path that is kept, though Metrana's document forbids it.
func (o *Options) tellOdd(updates []model.Update) {
	for i := range updates {
		path := updates[i].Path
		if why := rule.Odd(path); why != "" {
			o.odd.Do(func() {
				o.Log.Warn("an attribute's path is kept, though Metrana documents only keys of letters, digits, '.', '_', '-', ':'", "path", path, "contains", why)
			})
			return
		}
	}
}

// fell counts a step that does not rise, and says so once.
func (r *Run) fell(s *Series, step int64) {
	r.falls.Add(1)
	if r.fallTold.CompareAndSwap(false, true) {
		r.opts.Log.Warn("a step does not rise: the point is kept, and replaces one that has the same step; Metrics().StepsNotRising counts them",
			"metric", s.key.Metric, "step", step, "next", s.steps.Next())
	}
}
