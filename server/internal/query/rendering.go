package query

import (
	"context"
	"fmt"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

// RenderingsRequest selects videos of a run.
type RenderingsRequest struct {
	Page
	Run     model.RunID
	Env     string // empty: every environment
	Episode *int64
	Tag     string
}

// RenderingsPage is a page of videos, by environment, episode and time.
type RenderingsPage struct {
	Renderings []model.Rendering
	Next       string
}

// Renderings lists the videos of a run.
func (s *Service) Renderings(ctx context.Context, r RenderingsRequest) (*RenderingsPage, error) {
	limit, err := pageSize(r.Limit, DefaultRuns, MaxRuns)
	if err != nil {
		return nil, err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	run, err := s.open(ctx, r.Run)
	if err != nil {
		return nil, s.finish(ctx, err)
	}
	page, next, err := s.runs.ListRenderings(ctx, run.ID, catalog.RenderingFilter{Env: r.Env, Episode: r.Episode, Tag: r.Tag, Limit: limit, Cursor: r.Cursor})
	if err != nil {
		return nil, s.finish(ctx, fmt.Errorf("list renderings of run %s: %w", run.ID, err))
	}
	return &RenderingsPage{page, next}, nil
}

// MayReadBlob reports whether the caller may read a file by its hash: with a key of
// the whole server, or when a run that the caller may read names it.
func (s *Service) MayReadBlob(ctx context.Context, sha256 string) (bool, error) {
	err := s.Allow(ctx, "", "")
	if model.CodeOf(err) != model.CodePermission {
		return err == nil, err
	}
	places, err := s.runs.Naming(ctx, sha256)
	if err != nil {
		return false, fmt.Errorf("find who names blob %s: %w", sha256, err)
	}
	return slices.ContainsFunc(places, func(p catalog.Place) bool { return s.Allow(ctx, p.Workspace, p.Project) == nil }), nil
}

// Rendering finds one of a run's videos.
func (s *Service) Rendering(ctx context.Context, id model.RunID, rendering string) (*model.Rendering, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	run, err := s.open(ctx, id)
	if err != nil {
		return nil, s.finish(ctx, err)
	}
	found, err := s.runs.Rendering(ctx, run.ID, rendering)
	return found, s.finish(ctx, err)
}
