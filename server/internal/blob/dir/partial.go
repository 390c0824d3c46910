package dir

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/platform"
	"github.com/kymogram/kymogram/server/internal/blob"
)

// A blob that comes in parts lies in partial/HASH until it is whole. That file
// survives a restart, is no blob to anybody, and goes when nothing was added for
// as long as an unnamed blob is kept.
const (
	partial = "partial"
	// mostPartial bounds their number: the one that waits longest makes way.
	mostPartial = 64
)

// Offset implements [blob.Store].
func (s *Store) Offset(_ context.Context, h blob.Hash) (offset int64, whole bool, err error) {
	_, file := place(h)
	for _, name := range []string{file, path.Join(partial, h.String())} {
		info, err := s.root.Stat(name)
		if err == nil {
			return info.Size(), name == file, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return 0, false, fmt.Errorf("look for blob: %w", err)
		}
	}
	return 0, false, nil
}

// Append implements [blob.Store].
func (s *Store) Append(ctx context.Context, h blob.Hash, offset int64, last bool, r io.Reader) (int64, error) {
	folder, file := place(h)
	if !s.reserve(h) {
		return offset, model.Errorf(model.CodeConflict, "another upload of this blob is under way").WithHint("ask again how far it is")
	}
	defer s.release(h)
	if s.renew(file) {
		next, _, err := s.Offset(ctx, h)
		return next, err
	}
	name := path.Join(partial, h.String())
	next, err := s.extend(ctx, name, offset, r)
	if err == nil && last {
		err = s.complete(name, h)
		if model.CodeOf(err) == model.CodeInvalid {
			next = 0
			err = errors.Join(err, s.root.Remove(name))
		}
		if err == nil {
			now := time.Now() // a new blob, whenever its last part came
			err = errors.Join(s.root.Chtimes(name, now, now), s.publish(name, folder, file))
		}
	}
	if err != nil {
		return next, diskError(fmt.Errorf("append to blob: %w", err))
	}
	return next, nil
}

// reserve lets one append at a time to a blob.
func (s *Store) reserve(h blob.Hash) bool {
	s.appending.Lock()
	defer s.appending.Unlock()
	if s.busy[h] {
		return false
	}
	s.busy[h] = true
	return true
}

func (s *Store) release(h blob.Hash) {
	s.appending.Lock()
	defer s.appending.Unlock()
	delete(s.busy, h)
}

// extend adds to a partial file. What came before r failed stays, but not what
// the disk had no room for: others need it.
func (s *Store) extend(ctx context.Context, name string, offset int64, r io.Reader) (next int64, err error) {
	if offset == 0 {
		if err := s.makeWay(); err != nil {
			return 0, err
		}
	}
	f, err := s.root.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	if size != offset {
		return size, model.Errorf(model.CodeConflict, "%d bytes of this blob are here, not %d", size, offset).WithHint("go on behind them")
	}
	n, err := io.Copy(f, contextReader{ctx, r})
	if platform.IsDiskFull(err) {
		return size, errors.Join(err, f.Truncate(size))
	}
	return size + n, errors.Join(err, f.Close())
}

// complete checks that a partial file is the blob and makes its bytes durable.
func (s *Store) complete(name string, want blob.Hash) error {
	f, err := s.root.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return err
	}
	if got := blob.Hash(sum.Sum(nil)); got != want {
		return otherHash(got, want)
	}
	return errors.Join(f.Sync(), f.Close())
}

// makeWay removes the partial file that waits longest, where there are too many.
func (s *Store) makeWay() error {
	entries, err := s.partials()
	if err != nil || len(entries) < mostPartial {
		return err
	}
	oldest := entries[0]
	for _, e := range entries {
		if e.ModTime().Before(oldest.ModTime()) {
			oldest = e
		}
	}
	return s.dropPartial(oldest)
}

func (s *Store) partials() ([]fs.FileInfo, error) {
	d, err := s.root.Open(partial)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdir(-1)
}

// dropPartial removes a partial file that nobody adds to now.
func (s *Store) dropPartial(info fs.FileInfo) error {
	h, err := blob.ParseHash(info.Name())
	if err == nil {
		if !s.reserve(h) {
			return nil
		}
		defer s.release(h)
	}
	if err := s.root.Remove(path.Join(partial, info.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// expire removes the partial files that nothing was added to since a time.
func (s *Store) expire(before time.Time) error {
	entries, err := s.partials()
	if err != nil {
		return fmt.Errorf("sweep parts of blobs: %w", err)
	}
	for _, e := range entries {
		if !e.ModTime().Before(before) {
			continue
		}
		if err := s.dropPartial(e); err != nil {
			return fmt.Errorf("sweep parts of blobs: %w", err)
		}
	}
	return nil
}
