package kymogram

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/kymogram/kymogram/internal/attribute"
	"github.com/kymogram/kymogram/internal/clock"
	"github.com/kymogram/kymogram/internal/job"
	"github.com/kymogram/kymogram/internal/machine"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/rule"
	"github.com/kymogram/kymogram/internal/series"
	"github.com/kymogram/kymogram/internal/spool"
	"github.com/kymogram/kymogram/internal/uplink"
)

const (
	// openLimit is how long Init waits for the server before it goes on without.
	openLimit = 800 * time.Millisecond
	// lateLimit bounds what the run finds out of the machine after Init.
	lateLimit = 20 * time.Second
)

// Init opens a run. It asks the server for at most 0.8 s; without an answer the
// run begins offline and is delivered later. It fails when the server refuses
// (a wrong key, a name that is taken where Options.ResumeStrategy is never), and when nothing can be written at all.
func Init(ctx context.Context, opts Options) (*Run, error) {
	if err := opts.settle(); err != nil {
		return nil, err
	}
	request, err := opts.request(time.Now())
	if err != nil {
		return nil, err
	}
	folder, err := spool.ResolveRoom(opts.env)
	if err != nil {
		return nil, err
	}
	if opts.APIKey != "" {
		if err := folder.SetKey(opts.Server, opts.APIKey); err != nil {
			return nil, err
		}
	}
	var later []model.Update
	request.Initial, later = fitOpen(request.Initial)
	request.Ended = folder.Ended(&request)
	opened, err := ask(ctx, folder, &opts, request)
	if err != nil {
		return nil, err
	}
	request.Offline = opened == nil
	w, err := spool.Create(folder, opts.Server, request, spool.WriterOptions{Cap: opts.MaxSpoolBytes, Pace: opts.pace(), System: opts.system()})
	if err != nil {
		return nil, err
	}
	r := &Run{
		w: w, folder: folder, request: request, opened: opened, starts: series.NewStarts(opened), envs: envEnds(opened), opts: opts, clock: clock.New(),
		plain: series.NewIndex[Series](), all: series.NewIndex[Series](), sharers: map[model.WriterID]bool{},
	}
	r.listen()
	if opts.Backpressure != BackpressureSpool {
		r.gate.Capacity, r.gate.Patience, r.gate.Endless = uint64(opts.QueueCapacity), opts.EnqueueTimeout, opts.Backpressure == BackpressureBlock
	}
	r.guarded = r.gate.Capacity > 0 || opts.ErrorStrategy == ErrorsRaiseOnLog
	if err := job.Publish(opts.OrchestrationID, request.Writer); err != nil {
		return nil, err
	}
	if opened == nil || opened.Created {
		if err := r.update(later...); err != nil {
			return nil, err
		}
	}
	r.start()
	return r, nil
}

// ask opens the run on the server; nil without an error means that there was no
// answer.
func ask(ctx context.Context, folder *spool.Folder, opts *Options, request model.OpenRequest) (*model.OpenResult, error) {
	key, err := uplink.FindKey(folder, opts.Server, opts.env)
	if err != nil {
		return nil, err
	}
	server, err := uplink.NewServer(opts.Server, key)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, openLimit)
	defer cancel()
	request.WithStarts = true
	result, err := server.Open(limited, request)
	if opts.newName && model.CodeOf(err) == model.CodeRunExists {
		request.Offline = true // as without the server, which then gives a run NAME-2
		result, err = server.Open(limited, request)
	}
	switch code := model.CodeOf(err); {
	case err == nil:
		if result.LinkedFrom != "" {
			opts.Log.Warn("the name was taken: the points go to a new run; ResumeAllow goes on with the run of that name", "asked", result.LinkedFrom, "run", result.RunName)
		}
		if result.ParentMissing {
			opts.Log.Warn("the run to fork from is not in the project: nothing is inherited until it is", "run", request.ForkFromRun, "project", request.Workspace+"/"+request.Project)
		}
		return &result, nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("open run: %w", ctx.Err())
	case errors.Is(err, uplink.ErrUnreachable) || !final(code):
		opts.Log.Warn("no server: the run begins offline and is delivered later", "server", opts.Server, "reason", err)
		return nil, nil
	}
	return nil, fmt.Errorf("open run %s/%s/%s on %s: %w", request.Workspace, request.Project, request.RunName, opts.Server, err)
}

// final reports whether a code is the server's word on this request. Any other,
// also one that this version does not know, may be another tomorrow.
func final(code model.Code) bool {
	switch code {
	case model.CodeInvalid, model.CodeAmbiguous, model.CodeUnauthenticated, model.CodePermission, model.CodeConflict,
		model.CodeRunExists, model.CodeRunDeleted, model.CodeTooLarge, model.CodeKindMismatch, model.CodeLimit, model.CodeBadRecord:
		return true
	}
	return false
}

// request is what the server and the spool are told of this writer.
func (o *Options) request(now time.Time) (model.OpenRequest, error) {
	initial, err := o.initial(now)
	if err != nil {
		return model.OpenRequest{}, err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	req := model.OpenRequest{
		Workspace: o.Workspace, Project: o.Project, RunName: o.RunName, DisplayName: o.DisplayName, Experiment: o.Experiment,
		LocalRun: newRunID(now), OrchestrationID: o.OrchestrationID, ResumeStrategy: o.ResumeStrategy,
		RestartCount:  job.Env(o.env).Restarts(),
		Rank:          job.Env(o.env).Rank(),
		ParentAttempt: job.Env(o.env).Parent(o.OrchestrationID), ResumeFromStep: o.ResumeFromStep, ForkFromRun: o.ForkFromRun, ForkAtStep: o.ForkAtStep, LoggerID: o.LoggerID,
		Host: host, PID: int64(os.Getpid()), Hotkey: o.Hotkey, OpenedNs: now.UnixNano(), SDK: "go/" + Version, Initial: initial,
	}
	fillRandom(req.Writer[:])
	return req, nil
}

func (o *Options) initial(now time.Time) ([]model.Update, error) {
	updates, err := attribute.Flatten("config", o.Config, now)
	if err != nil {
		return nil, err
	}
	o.tellOdd(updates)
	if !o.NoEnvironment {
		updates = append(updates, describe(machine.Describe(), now)...)
	}
	if len(o.Tags) > 0 {
		updates = append(updates, tagUpdates(model.OpSetTags, o.Tags, now)...)
	}
	if o.Description != "" {
		if err := rule.Text("description", o.Description, rule.MaxText); err != nil {
			return nil, err
		}
		updates = append(updates, model.Update{Op: model.OpSetDescription, TimeNs: now.UnixNano(), Text: o.Description})
	}
	return updates, nil
}

// describe makes attributes of what was found of the machine.
func describe(found map[string]any, now time.Time) (out []model.Update) {
	for _, path := range slices.Sorted(maps.Keys(found)) {
		// What breaks a rule of paths is left out rather than ending a run.
		if updates, err := attribute.Flatten(path, found[path], now); err == nil {
			out = append(out, updates...)
		}
	}
	return out
}

// describeMachine tells what may take seconds to find out, if this process made
// the run. A run that was closed meanwhile goes without.
func (r *Run) describeMachine(ctx context.Context) {
	if r.opts.NoEnvironment || r.opened == nil || !r.opened.Created {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lateLimit)
	defer cancel()
	said := func(path string) bool {
		return slices.ContainsFunc(r.request.Initial, func(u model.Update) bool { return u.Path == path })
	}
	if said("git/commit_sha") && !said("git/dirty") {
		if dirty, err := machine.IsDirty(ctx); err == nil {
			_ = r.LogAttributes("git/dirty", dirty)
		}
	}
	if cards := machine.Cards(ctx); len(cards) > 0 {
		_ = r.LogAttributes("gpu", cards)
	}
}

// What travels with the open. More of a configuration follows in the spool: its size
// decides neither how long Init takes nor whether the server is reached in time.
const (
	openValues = 1000
	openBytes  = 64 << 10
)

// fitOpen parts what Init says of the run: the open, and the configuration that
// does not fit.
func fitOpen(initial []model.Update) (open, later []model.Update) {
	values, room := 0, openBytes
	for _, u := range initial {
		if u.Op != model.OpSetAttribute || !strings.HasPrefix(u.Path, "config/") {
			open = append(open, u)
			continue
		}
		size := 100 + len(u.Path)
		if u.Value != nil {
			size += len(u.Value.Str)
		}
		values, room = values+1, room-size
		if values <= openValues && room >= 0 {
			open = append(open, u)
		} else if u.Value != nil { // a new run has nothing to remove
			u.Initial = true
			later = append(later, u)
		}
	}
	return open, later
}

// pace is what open.json tells the deliverer.
func (o *Options) pace() *spool.Pace {
	p := &spool.Pace{
		MaxPending: o.MaxPendingRequests, BatchAgeMs: o.BatchMaxAge.Milliseconds(), MaxBytes: o.MaxMsgSize, Compression: o.Compression,
		FirstBackoffMs: o.SendRetryInitialBackoff.Milliseconds(), LastBackoffMs: o.SendRetryMaxBackoff.Milliseconds(),
		RenderingUploads: o.Rendering.UploadConcurrency,
	}
	if o.Backpressure != BackpressureSpool && o.MaxSendRetries >= 0 {
		tries := uint64(o.MaxSendRetries)
		p.GiveUpAfter = &tries
	}
	if *p == (spool.Pace{}) {
		return nil
	}
	return p
}

func (o *Options) system() *spool.System {
	if o.NoSystemMetrics {
		return nil
	}
	return &spool.System{IntervalMs: o.SystemMetricsInterval.Milliseconds()}
}

func newRunID(now time.Time) (id model.RunID) {
	ms := uint64(now.UnixMilli())
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	fillRandom(id[6:])
	return id
}

// fillRandom never fails: crypto/rand ends the program rather than return less.
func fillRandom(b []byte) { _, _ = rand.Read(b) }

func randomHex(n int) string {
	b := make([]byte, n)
	fillRandom(b)
	return hex.EncodeToString(b)
}
