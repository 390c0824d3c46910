package ingest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

// maxStarts is how many next steps an answer carries (model.OpenResult).
const maxStarts = 10_000

// Limits of an open. Free texts are shown in lists; a path or host is shorter.
const (
	maxTextBytes    = 1024
	maxInitial      = 10_000
	maxOrchestrator = 512
)

// Open finds or makes the run, attempt and writer of a request, durably, and
// says where the writer stands. It is idempotent and leaves streams alone.
func (s *Service) Open(ctx context.Context, r model.OpenRequest) (*model.OpenResult, error) {
	opened, run, err := s.open(ctx, r)
	if err != nil {
		return nil, err
	}
	defer s.runs.release(run)
	if run.deleted.Load() {
		return nil, errDeleted(opened.RunName)
	}
	return s.complete(ctx, r, opened)
}

// Join opens a writer for a stream and ends the writer's older stream. The
// caller closes the session. A known writer of a run in the trash may join: its
// points are refused one by one, counted, and taken after a restore.
func (s *Service) Join(ctx context.Context, r model.OpenRequest) (*Session, error) {
	opened, run, err := s.open(ctx, r)
	if err != nil {
		return nil, err
	}
	session := &Session{
		service: s, run: run, writer: r.Writer, attempt: opened.Attempt, owner: &owner{r.Writer, opened.Attempt, r.Host, r.PID, r.Rank},
		workspace: opened.Workspace, project: opened.Project,
		ended: make(chan struct{}), allowed: s.deps.Now(),
	}
	// Before the mark is read: what the older stream still stores afterwards
	// shows as a gap, which carries the mark.
	s.streams.replace(session)
	result, err := s.complete(ctx, r, opened)
	if err != nil {
		session.Close()
		return nil, err
	}
	session.Opened = *result
	return session, nil
}

// aheadEvery is how often a writer that is ahead goes to the log: clients say what they
// like.
const aheadEvery = 10 * time.Second

// Compare counts a writer that was acknowledged more than is here: the data folder is an
// older copy, or another server acknowledged it. The client sends again what it still
// has, and the ledger of the run names the rest.
func (s *Session) Compare(acked uint64) {
	if acked <= s.Opened.Mark {
		return
	}
	c, now := &s.service.counters, s.service.deps.Now().UnixNano()
	count := c.ahead.Add(1)
	if told := c.aheadToldNs.Load(); now-told >= int64(aheadEvery) && c.aheadToldNs.CompareAndSwap(told, now) {
		s.service.deps.Log.Warn("a client was acknowledged records that are not here: this data folder is an older copy, or another server took them",
			"run", s.Opened.Run, "writer", s.writer, "acknowledged", acked, "here", s.Opened.Mark, "so_far", count)
	}
}

// open does all but the answer. The run's state is the caller's to release.
func (s *Service) open(ctx context.Context, r model.OpenRequest) (*catalog.Opened, *runState, error) {
	if err := checkOpen(&r); err != nil {
		return nil, nil, err
	}
	if err := s.deps.Auth.Allow(ctx, catalog.ScopeIngest, r.Workspace, r.Project); err != nil {
		return nil, nil, err
	}
	s.warn("compare the catalog with the store", s.compare(ctx))
	if err := s.decideFork(ctx, &r); err != nil {
		return nil, nil, err
	}
	moves := s.moves.Load()
	opened, err := s.deps.Catalog.Open(ctx, r, s.deps.Now())
	if err != nil {
		return nil, nil, ofOneJob(&r, err)
	}
	run := s.runs.acquire(opened.Run)
	if err := s.prepare(ctx, r, opened, run, moves); err != nil {
		s.runs.release(run)
		return nil, nil, err
	}
	s.publish(opened.Run, opened.Workspace, opened.Project)
	return opened, run, nil
}

// ofOneJob says what a rank needs that does not find the run of its job: each made up an id
// of the job, so the first to come took the name.
func ofOneJob(r *model.OpenRequest, err error) error {
	var taken *model.Error
	if r.Rank == nil || !errors.As(err, &taken) || taken.Code != model.CodeRunExists {
		return err
	}
	return taken.WithHint("Ranks of one job need one orchestration_id: give all of them the same, or set KYMOGRAM_ORCHESTRATION_ID. %s", taken.Hint)
}

// prepare makes the attempt and the writer known to the store. Updates that the
// catalog lacks come first: the mark that the answer carries covers them.
func (s *Service) prepare(ctx context.Context, r model.OpenRequest, opened *catalog.Opened, run *runState, moves uint64) error {
	if err := s.settle(ctx, run); err != nil {
		return err
	}
	if err := s.markIfDeleted(ctx, opened, run, moves); err != nil {
		return err
	}
	if err := s.deps.Points.PutOpen(ctx, opened.Run, opened.AttemptInfo, r.Writer, r.LoggerID); err != nil {
		return fmt.Errorf("put attempt %d of run %s and writer %s: %w", opened.Attempt, opened.Run, r.Writer, err)
	}
	return nil
}

// markIfDeleted says whether the run is in the trash, now that we hold its state; a later
// deletion or restore marks that state. What the open found is true still where none was
// moved since.
func (s *Service) markIfDeleted(ctx context.Context, opened *catalog.Opened, run *runState, moves uint64) error {
	s.trash.Lock()
	defer s.trash.Unlock()
	if s.moves.Load() == moves {
		run.deleted.Store(opened.Deleted)
		return nil
	}
	found, err := s.deps.Catalog.Lookup(ctx, opened.Run)
	if err != nil {
		return err
	}
	run.deleted.Store(found.DeletedNs > 0)
	return nil
}

func errDeleted(name string) *model.Error {
	return model.Errorf(model.CodeRunDeleted, "the run %q was deleted", name).WithHint("Restore it within 7 days, or log into a run with another name.")
}

func (s *Service) complete(ctx context.Context, r model.OpenRequest, opened *catalog.Opened) (*model.OpenResult, error) {
	result := opened.OpenResult
	var err error
	if result.Mark, err = s.deps.Points.Mark(ctx, r.Writer); err != nil {
		return nil, fmt.Errorf("read the mark of writer %s: %w", r.Writer, err)
	}
	if r.ForkFromRun != "" {
		run, err := s.deps.Catalog.Lookup(ctx, opened.Run)
		if err != nil {
			return nil, err
		}
		result.ParentMissing = run.Parent.IsZero()
	}
	if !r.WithStarts {
		return &result, nil
	}
	if len(r.StartsOf) > 0 {
		return &result, s.startsOf(ctx, r.StartsOf, &result)
	}
	result.Starts, result.Envs, result.StartsComplete, err = s.deps.Starts.Ends(ctx, opened.Run, maxStarts)
	if model.CodeOf(err) == model.CodeNotFound {
		result.StartsComplete, err = true, nil // no series yet
	}
	if err != nil {
		return nil, fmt.Errorf("read the ends of run %s: %w", opened.Run, err)
	}
	return &result, s.inherit(ctx, &result)
}

func (s *Service) publish(run model.RunID, workspace, project string) {
	s.deps.Live.Publish(model.RunChange{Run: run, Workspace: workspace, Project: project})
}

// checkOpen refuses what no catalog should see.
func checkOpen(r *model.OpenRequest) error {
	if r.Writer.IsZero() {
		return model.Errorf(model.CodeInvalid, "the open has no writer id").WithHint("A writer id is 32 hex characters of randomness.")
	}
	if err := model.CheckPlace(r.Workspace, r.Project); err != nil {
		return err
	}
	if err := model.CheckRunName(r.RunName); err != nil {
		return err
	}
	if err := checkTexts(r); err != nil {
		return err
	}
	if len(r.Ended) > model.MaxEnded {
		return model.Errorf(model.CodeInvalid, "the open names %d ended writers", len(r.Ended)).WithHint("Name the newest %d.", model.MaxEnded)
	}
	if len(r.StartsOf) > model.MaxStartsOf {
		return model.Errorf(model.CodeInvalid, "the open asks for the steps of %d series", len(r.StartsOf)).WithHint("At most %d by name.", model.MaxStartsOf)
	}
	if err := checkNumbers(r); err != nil {
		return err
	}
	var unknown uint64
	r.Initial, unknown = knownOnly(r.Initial)
	if err := checkInitial(r.Initial); err != nil {
		return err
	}
	if unknown > 0 {
		r.Initial = append(r.Initial, model.Update{Op: model.OpRefused, Count: unknown, Text: "updates of a newer version"})
	}
	return nil
}

func checkTexts(r *model.OpenRequest) error {
	for _, t := range []struct {
		what, text string
		max        int
	}{
		{"display_name", r.DisplayName, maxTextBytes},
		{"experiment", r.Experiment, maxTextBytes},
		{"orchestration_id", r.OrchestrationID, maxOrchestrator},
		{"fork_from_run", r.ForkFromRun, maxTextBytes},
		{"host", r.Host, maxTextBytes},
		{"hotkey", r.Hotkey, maxTextBytes},
		{"sdk", r.SDK, maxTextBytes},
	} {
		if len(t.text) > t.max || !model.IsClean(t.text) {
			return model.Errorf(model.CodeInvalid, "%s is not valid", t.what).
				WithHint("%s is at most %d bytes of UTF-8 without control characters.", t.what, t.max)
		}
	}
	return nil
}

func checkNumbers(r *model.OpenRequest) error {
	for _, n := range []struct {
		what  string
		value *int64
		max   int64
	}{
		{"restart_count", r.RestartCount, math.MaxInt32},
		{"resume_from_step", r.ResumeFromStep, maxStep},
		{"fork_at_step", r.ForkAtStep, maxStep},
		{"rank", r.Rank, math.MaxInt32},
	} {
		if n.value != nil && (*n.value < 0 || *n.value > n.max) {
			return model.Errorf(model.CodeInvalid, "%s is %d", n.what, *n.value).WithHint("It is 0 to %d.", n.max)
		}
	}
	return nil
}

// knownOnly leaves out the updates of a newer client, and counts them: they must not
// keep a writer from opening, since its points wait for that.
func knownOnly(updates []model.Update) (known []model.Update, unknown uint64) {
	known = slices.DeleteFunc(slices.Clone(updates), func(u model.Update) bool { return !isKnown(u.Op) })
	return known, uint64(len(updates) - len(known))
}

func checkInitial(updates []model.Update) error {
	if len(updates) > maxInitial {
		return model.Errorf(model.CodeInvalid, "the open carries %d updates", len(updates)).WithHint("At most %d; send the others in batches.", maxInitial)
	}
	for i := range updates {
		switch updates[i].Op {
		case model.OpClose, model.OpGone, model.OpDropped:
			return model.Errorf(model.CodeInvalid, "an open cannot %s", updates[i].Op)
		}
		if fault := checkUpdate(&updates[i]); fault != nil {
			return model.Errorf(model.CodeInvalid, "%s", fault.Message).WithHint("It is in `initial` of the open.")
		}
	}
	return nil
}
