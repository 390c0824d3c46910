package query

import (
	"context"
	"fmt"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

// What answers with views hold: a list of the longest titles, and a document with its copy.
const (
	ViewsBytes = 2 << 20
	ViewBytes  = 512 << 10
)

// Views lists the views of a project by name, without their documents.
func (s *Service) Views(ctx context.Context, workspace, project string) ([]catalog.View, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	if err := s.Allow(ctx, workspace, project); err != nil {
		return nil, err
	}
	list, err := s.runs.ListViews(ctx, workspace, project)
	if err != nil {
		return nil, s.finish(ctx, fmt.Errorf("list the views of %s/%s: %w", workspace, project, err))
	}
	return list, nil
}

// View reads one view of a project.
func (s *Service) View(ctx context.Context, workspace, project, name string) (*catalog.View, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	if err := s.Allow(ctx, workspace, project); err != nil {
		return nil, err
	}
	v, err := s.runs.View(ctx, workspace, project, name)
	if err != nil && model.CodeOf(err) != model.CodeNotFound {
		err = fmt.Errorf("read the view %s of %s/%s: %w", name, workspace, project, err)
	}
	return v, s.finish(ctx, err)
}
