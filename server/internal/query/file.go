package query

import (
	"context"
	"fmt"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

// FilesRequest selects files of a run.
type FilesRequest struct {
	Page
	Run     model.RunID
	Names   []string // nil: any
	Prefix  string   // of the name
	Pattern string   // of SQL's LIKE, "" for any
}

// FilesPage is a page of files, by name.
type FilesPage struct {
	Run   model.RunID
	Files []catalog.File
	Next  string
}

// Files lists the files of a run.
func (s *Service) Files(ctx context.Context, r FilesRequest) (*FilesPage, error) {
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
	page, next, err := s.runs.Files(ctx, run.ID, r.filter(limit))
	if err != nil {
		return nil, s.finish(ctx, fmt.Errorf("list files of run %s: %w", run.ID, err))
	}
	return &FilesPage{run.ID, page, next}, nil
}

func (r *FilesRequest) filter(limit int) catalog.FileFilter {
	return catalog.FileFilter{Names: r.Names, Prefix: r.Prefix, Like: r.Pattern, Limit: limit, Cursor: r.Cursor}
}

// CountFiles counts all files that a request selects, and their bytes.
func (s *Service) CountFiles(ctx context.Context, r FilesRequest) (files int, bytes int64, err error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	run, err := s.open(ctx, r.Run)
	if err != nil {
		return 0, 0, s.finish(ctx, err)
	}
	files, bytes, err = s.runs.CountFiles(ctx, run.ID, r.filter(0))
	return files, bytes, s.finish(ctx, err)
}

// File finds one of a run's files.
func (s *Service) File(ctx context.Context, id model.RunID, name string) (*catalog.File, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	run, err := s.open(ctx, id)
	if err != nil {
		return nil, s.finish(ctx, err)
	}
	found, err := s.runs.File(ctx, run.ID, name)
	return found, s.finish(ctx, err)
}
