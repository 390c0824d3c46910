package query

import (
	"context"
	"iter"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

// Trees reads trees of a run by their names; what it has not is not in the answer.
func (s *Service) Trees(ctx context.Context, run model.RunID, names ...string) (map[string]string, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	if _, err := s.open(ctx, run); err != nil {
		return nil, s.finish(ctx, err)
	}
	trees, err := s.runs.Trees(ctx, run, names...)
	return trees, s.finish(ctx, err)
}

// RunsWithTrees reads the runs of a project with some of their trees, see [catalog.Trees].
func (s *Service) RunsWithTrees(ctx context.Context, q catalog.TreeQuery) iter.Seq2[catalog.RunTrees, error] {
	return func(yield func(catalog.RunTrees, error) bool) {
		if err := s.Allow(ctx, q.Workspace, q.Project); err != nil {
			yield(catalog.RunTrees{}, err)
			return
		}
		ctx, cancel := s.bounded(ctx)
		defer cancel()
		for run, err := range s.runs.RunsWithTrees(ctx, q) {
			if !yield(run, s.finish(ctx, err)) {
				return
			}
		}
	}
}

// CountRuns counts the runs of a project that are not in the trash.
func (s *Service) CountRuns(ctx context.Context, workspace, project string) (int, error) {
	if err := s.Allow(ctx, workspace, project); err != nil {
		return 0, err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	n, err := s.runs.CountRuns(ctx, workspace, project)
	return n, s.finish(ctx, err)
}
