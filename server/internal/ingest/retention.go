package ingest

import (
	"context"
	"time"

	"github.com/kymogram/kymogram/server/internal/catalog"
)

// Space tells how much the points of all runs take (a store.Engine).
type Space interface {
	LiveBytes() int64
}

// Blobs can be swept (a blob store).
type Blobs interface {
	// Sweep deletes the blobs that were put before a time, not put again since, and
	// that used does not name.
	Sweep(ctx context.Context, before time.Time, used func(hashes []string) (map[string]bool, error)) (files int, bytes int64, err error)
}

// How often retention looks, and how many runs it deletes between two looks at
// the space.
const (
	retainEvery = time.Minute
	retainBatch = 100
	// blobGrace is how long a blob may wait for the record that names it.
	blobGrace = 24 * time.Hour
)

// retain deletes the runs that are older than the retention's age, then the
// oldest until the points fit its size. They do not pass through the trash.
func (s *Service) retain(ctx context.Context, now time.Time) error {
	if s.cfg.RetentionAge > 0 {
		if err := s.retireOld(ctx, now.Add(-s.cfg.RetentionAge)); err != nil {
			return err
		}
	}
	if s.cfg.RetentionBytes <= 0 || s.deps.Space == nil {
		return nil
	}
	for s.deps.Space.LiveBytes() > s.cfg.RetentionBytes {
		runs, err := s.deps.Catalog.Idle(ctx, now, 1)
		if err != nil || len(runs) == 0 {
			return err // what is left is written to, or kept
		}
		if err := s.retire(ctx, &runs[0], "size"); err != nil {
			return err
		}
		s.counters.retiredSize.Add(1)
	}
	return nil
}

func (s *Service) retireOld(ctx context.Context, before time.Time) error {
	for {
		runs, err := s.deps.Catalog.Idle(ctx, before, retainBatch)
		if err != nil || len(runs) == 0 {
			return err
		}
		for i := range runs {
			if err := s.retire(ctx, &runs[i], "age"); err != nil {
				return err
			}
			s.counters.retiredAge.Add(1)
		}
	}
}

// retire frees a run for good, as a person's deletion without the trash does.
func (s *Service) retire(ctx context.Context, run *catalog.Run, why string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := s.moveRun(run.ID, true, func() error { return s.deps.Catalog.Trash(ctx, run.ID, s.deps.Now()) })
	if err != nil {
		return err
	}
	if err := s.purge(context.WithoutCancel(ctx), run.ID); err != nil {
		return err
	}
	s.deps.Log.Info("retention deleted a run", "because", why, "run", run.ID, "workspace", run.Workspace, "project", run.Project, "name", run.Name, "last", time.Unix(0, run.LastNs))
	s.publish(run.ID, run.Workspace, run.Project)
	return nil
}

// sweep frees the blobs that no run names any more.
func (s *Service) sweep(ctx context.Context, now time.Time) error {
	if s.deps.Blobs == nil {
		return nil
	}
	files, size, err := s.deps.Blobs.Sweep(ctx, now.Add(-blobGrace), func(hashes []string) (map[string]bool, error) {
		return s.deps.Catalog.Referenced(ctx, hashes)
	})
	s.counters.sweptBlobs.Add(uint64(files))
	s.counters.sweptBytes.Add(uint64(size))
	if files > 0 {
		s.deps.Log.Info("blobs that no run names are deleted", "files", files, "bytes", size)
	}
	return err
}
