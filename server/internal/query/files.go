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

// Files lists files of a run by name.
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
