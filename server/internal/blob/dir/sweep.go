package dir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// sweepBatch is how many blobs are asked about at once.
const sweepBatch = 500

// Sweep deletes the blobs that were put before a time, not put again since, and
// that used does not name; and what came of others, if nothing came since.
func (s *Store) Sweep(ctx context.Context, before time.Time, used func(hashes []string) (map[string]bool, error)) (files int, bytes int64, err error) {
	var batch []Entry
	flush := func() error {
		n, size, err := s.sweep(ctx, batch, before, used)
		files, bytes, batch = files+n, bytes+size, batch[:0]
		return err
	}
	err = List(ctx, s.folder, func(e Entry) error {
		if !e.Made.Before(before) {
			return nil
		}
		if batch = append(batch, e); len(batch) < sweepBatch {
			return nil
		}
		return flush()
	})
	return files, bytes, errors.Join(err, flush(), s.expire(before))
}

func (s *Store) sweep(ctx context.Context, batch []Entry, before time.Time, used func([]string) (map[string]bool, error)) (files int, bytes int64, err error) {
	if len(batch) == 0 {
		return 0, 0, nil
	}
	hashes := make([]string, len(batch))
	for i, e := range batch {
		hashes[i] = e.Hash.String()
	}
	keep, err := used(hashes)
	if err != nil {
		return 0, 0, fmt.Errorf("sweep blobs: %w", err)
	}
	for i := range batch {
		if keep[hashes[i]] {
			continue
		}
		gone, err := s.deleteOld(ctx, &batch[i], before)
		if err != nil {
			return files, bytes, err
		}
		if gone {
			files++
			bytes += batch[i].Size
		}
	}
	return files, bytes, nil
}

// deleteOld looks at the age once more: who puts a blob again is about to name it.
func (s *Store) deleteOld(ctx context.Context, e *Entry, before time.Time) (bool, error) {
	s.sweeping.Lock()
	defer s.sweeping.Unlock()
	_, file := place(e.Hash)
	info, err := s.root.Stat(file)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.ModTime().Before(before) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("sweep blobs: %w", err)
	}
	return true, s.Delete(ctx, e.Hash)
}
