package query

import (
	"context"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

// FilesPage is a part of the list of a run's files.
type FilesPage struct {
	Files []catalog.File
	Next  string
	// Count and Bytes are of all that the filter selects.
	Count int
	Bytes int64
}

// ListFiles lists files of a run by name, and counts none.
func (s *Service) ListFiles(ctx context.Context, run model.RunID, f catalog.FileFilter) (page []catalog.File, next string, err error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	found, err := s.open(ctx, run)
	if err != nil {
		return nil, "", s.finish(ctx, err)
	}
	page, next, err = s.runs.Files(ctx, found.ID, f)
	return page, next, s.finish(ctx, err)
}

// Files is ListFiles with counts.
func (s *Service) Files(ctx context.Context, run model.RunID, f catalog.FileFilter) (*FilesPage, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	found, err := s.open(ctx, run)
	if err != nil {
		return nil, s.finish(ctx, err)
	}
	var page FilesPage
	if page.Files, page.Next, err = s.runs.Files(ctx, found.ID, f); err != nil {
		return nil, s.finish(ctx, err)
	}
	page.Count, page.Bytes, err = s.runs.CountFiles(ctx, found.ID, f)
	return &page, s.finish(ctx, err)
}

// File finds one of a run's files: CodeNotFound.
func (s *Service) File(ctx context.Context, run model.RunID, name string) (*catalog.File, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	found, err := s.open(ctx, run)
	if err != nil {
		return nil, s.finish(ctx, err)
	}
	file, err := s.runs.File(ctx, found.ID, name)
	return file, s.finish(ctx, err)
}
