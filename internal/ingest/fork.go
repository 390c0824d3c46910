package ingest

import (
	"context"
	"fmt"

	"github.com/kymogram/kymogram/internal/model"
)

// Names finds runs by their names.
type Names interface {
	// FindRun gives CodeNotFound when the project has no such run.
	FindRun(ctx context.Context, workspace, project, name string) (model.RunID, error)
}

// inherit lets a forked run go on where its parent stood: a series that it does
// not have yet starts behind the parent's, at the latest behind the fork's step.
// Steps within episodes are not inherited, the fork's episodes are its own.
func (s *Service) inherit(ctx context.Context, r model.OpenRequest, result *model.OpenResult) error {
	if r.ForkFromRun == "" || s.deps.Names == nil {
		return nil
	}
	parent, err := s.deps.Names.FindRun(ctx, r.Workspace, r.Project, r.ForkFromRun)
	if model.CodeOf(err) == model.CodeNotFound || parent == result.Run {
		return nil // the lineage names a run that is not here
	}
	if err != nil {
		return fmt.Errorf("find the parent %q: %w", model.Clip(r.ForkFromRun), err)
	}
	starts, _, _, err := s.deps.Starts.Ends(ctx, parent, maxStarts)
	if model.CodeOf(err) == model.CodeNotFound {
		return nil // it has no series
	}
	if err != nil {
		return fmt.Errorf("read the ends of run %s: %w", parent, err)
	}
	own := map[string]bool{}
	for _, start := range result.Starts {
		own[seriesOf(start)] = true
	}
	for _, start := range starts {
		if start.Episode != nil || own[seriesOf(start)] || len(result.Starts) >= maxStarts {
			continue
		}
		if r.ForkAtStep != nil {
			start.Next = min(start.Next, *r.ForkAtStep+1)
		}
		result.Starts = append(result.Starts, start)
	}
	return nil
}

func seriesOf(s model.Start) string {
	return model.NewSeriesKey(s.Metric, s.Scale, s.Labels).String()
}
