package ingest

import (
	"context"
	"fmt"
	"math"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/store"
)

// Names finds runs by their names.
type Names interface {
	// FindRun gives CodeNotFound when the project has no such run.
	FindRun(ctx context.Context, workspace, project, name string) (model.RunID, error)
}

// decideFork gives a fork that names no step the last one that its parent has
// now, so that what it inherits does not change when the parent goes on. A parent
// without a step leaves it open; the next open asks again.
func (s *Service) decideFork(ctx context.Context, r *model.OpenRequest) error {
	if r.ForkFromRun == "" || r.ForkAtStep != nil || s.deps.Names == nil {
		return nil
	}
	parent, err := s.deps.Names.FindRun(ctx, r.Workspace, r.Project, r.ForkFromRun)
	if model.CodeOf(err) == model.CodeNotFound {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find the parent %q: %w", model.Clip(r.ForkFromRun), err)
	}
	starts, envs, _, err := s.deps.Starts.Ends(ctx, parent, math.MaxInt)
	if model.CodeOf(err) == model.CodeNotFound {
		return nil // it has no series
	}
	if err != nil {
		return fmt.Errorf("read the ends of run %s: %w", parent, err)
	}
	last := int64(-1)
	for _, env := range envs {
		last = max(last, env.LastRLStep)
	}
	for _, start := range starts {
		if !ofEnvironment(start) {
			last = max(last, start.Next-1)
		}
	}
	if last >= 0 {
		r.ForkAtStep = &last
	}
	return nil
}

// ofEnvironment: the steps of the series are episodes or within them, so a fork
// step, which is one of training, does not compare with them.
func ofEnvironment(s model.Start) bool {
	_, env := s.Labels[model.LabelEnv]
	return env || s.Episode != nil
}

// inherit lets a forked run go on where its ancestors stood: a series that it does
// not have yet starts behind theirs, at the latest behind the step of the fork.
// Steps within episodes are not inherited, the fork's episodes are its own.
func (s *Service) inherit(ctx context.Context, result *model.OpenResult) error {
	own := map[string]bool{}
	for _, start := range result.Starts {
		own[seriesOf(start)] = true
	}
	return s.ancestors(ctx, result.Run, func(run model.RunID, upTo int64) error {
		return s.inheritFrom(ctx, run, upTo, own, result)
	})
}

// ancestors visits the runs that a run goes on from, nearest first, each with the
// last step that is inherited of it.
func (s *Service) ancestors(ctx context.Context, of model.RunID, visit func(run model.RunID, upTo int64) error) error {
	seen := map[model.RunID]bool{}
	run, err := s.deps.Catalog.Lookup(ctx, of)
	for upTo := int64(math.MaxInt64); err == nil && !run.Parent.IsZero() && !seen[run.ID]; {
		seen[run.ID] = true
		if run.ForkStep != nil {
			upTo = min(upTo, *run.ForkStep)
		}
		if run, err = s.parentOf(ctx, run); err == nil {
			err = visit(run.ID, upTo)
		}
	}
	switch model.CodeOf(err) {
	case model.CodeNotFound, model.CodeRunDeleted:
		return nil
	}
	return err
}

// parentOf is not found when it is in the trash or in another project.
func (s *Service) parentOf(ctx context.Context, run *catalog.Run) (*catalog.Run, error) {
	parent, err := s.deps.Catalog.Lookup(ctx, run.Parent)
	if err == nil && (parent.DeletedNs > 0 || parent.Workspace != run.Workspace || parent.Project != run.Project) {
		return nil, errDeleted(parent.Name)
	}
	return parent, err
}

func (s *Service) inheritFrom(ctx context.Context, run model.RunID, upTo int64, own map[string]bool, result *model.OpenResult) error {
	starts, _, _, err := s.deps.Starts.Ends(ctx, run, maxStarts)
	if model.CodeOf(err) == model.CodeNotFound {
		return nil // it has no series
	}
	if err != nil {
		return fmt.Errorf("read the ends of run %s: %w", run, err)
	}
	for _, start := range starts {
		if start.Episode != nil || own[seriesOf(start)] || len(result.Starts) >= maxStarts {
			continue
		}
		switch {
		case ofEnvironment(start):
			if start.Next, err = s.nextUpTo(ctx, run, start, upTo); err != nil {
				return err
			}
		case upTo < math.MaxInt64:
			start.Next = min(start.Next, upTo+1)
		}
		own[seriesOf(start)] = true
		result.Starts = append(result.Starts, start)
	}
	return nil
}

// nextUpTo is the next step of a series of an environment behind what is
// inherited of it.
func (s *Service) nextUpTo(ctx context.Context, run model.RunID, start model.Start, upTo int64) (int64, error) {
	text := seriesOf(start)
	list, _, err := s.deps.Starts.ListSeries(ctx, run, store.SeriesFilter{
		Metric: start.Metric, Limit: 1, Match: func(key model.SeriesKey) bool { return key.String() == text },
	})
	if err != nil || len(list) == 0 {
		return 0, err
	}
	end, err := s.deps.Starts.Curve(ctx, store.CurveRequest{Ancestors: []store.Ancestor{{Run: run, Series: list[0].ID, UpTo: upTo}}})
	if err != nil || end.Last == nil || end.Last.Step == nil {
		return 0, err
	}
	return *end.Last.Step + 1, nil
}

func seriesOf(s model.Start) string {
	return model.NewSeriesKey(s.Metric, s.Scale, s.Labels).String()
}

// startsOf answers for series by name: a look-up each, however many the run has. One
// that is not in the answer has no point yet.
func (s *Service) startsOf(ctx context.Context, names []model.SeriesName, result *model.OpenResult) error {
	for _, name := range names {
		start := model.Start{Metric: name.Metric, Scale: name.Scale, Labels: name.Labels}
		look := func(run model.RunID, upTo int64) error {
			if start.Next > 0 {
				return nil
			}
			last := upTo
			if !ofEnvironment(start) {
				last = math.MaxInt64 // as inheritFrom: behind the fork at the latest
			}
			next, err := s.nextUpTo(ctx, run, start, last)
			if model.CodeOf(err) == model.CodeNotFound {
				return nil // it has no series
			}
			if upTo < math.MaxInt64 {
				next = min(next, upTo+1)
			}
			start.Next = next
			return err
		}
		if err := look(result.Run, math.MaxInt64); err != nil {
			return fmt.Errorf("read the end of a series of run %s: %w", result.Run, err)
		}
		if err := s.ancestors(ctx, result.Run, look); err != nil {
			return err
		}
		if start.Next > 0 {
			result.Starts = append(result.Starts, start)
		}
	}
	result.StartsComplete = true
	return nil
}
