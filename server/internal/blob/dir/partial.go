package dir

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/platform"
	"github.com/kymogram/kymogram/server/internal/blob"
)

// A blob that comes in parts lies in partial/HASH-OWNER until it is whole. That file
// survives a restart, is no blob to anybody, and goes when nothing was added for
// as long as an unnamed blob is kept. There are bounds to their number: where one is
// reached, an upload that has rested makes way, and else a new one is refused. In all
// there is a quarter more for owners that have none.
const (
	partial      = "partial"
	ownPartials  = 64
	mostPartials = 1024
	// rest is how long nothing comes of an upload that makes way.
	rest = 10 * time.Minute
)

// ownerOf is the part of a partial file's name that its owner's have in common.
func ownerOf(name string) string {
	_, owner, _ := strings.Cut(path.Base(name), "-")
	return owner
}

func partialOf(u blob.Upload) string {
	owner := sha256.Sum256([]byte(u.Owner))
	return path.Join(partial, u.Hash.String()+"-"+hex.EncodeToString(owner[:8]))
}

// Offset implements [blob.Store].
func (s *Store) Offset(_ context.Context, u blob.Upload) (offset int64, whole bool, err error) {
	_, file := place(u.Hash)
	for _, name := range []string{file, partialOf(u)} {
		info, err := s.root.Stat(name)
		if err == nil && (name != file || !s.isDamaged(u.Hash, info)) {
			return info.Size(), name == file, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, false, fmt.Errorf("look for blob: %w", err)
		}
	}
	return 0, false, nil
}

// Append implements [blob.Store].
func (s *Store) Append(ctx context.Context, u blob.Upload, offset int64, last bool, r io.Reader) (int64, error) {
	folder, file := place(u.Hash)
	name := partialOf(u)
	if !s.busy.Reserve(name) {
		return offset, blob.UnderWay()
	}
	defer s.busy.Release(name)
	if s.renew(u.Hash, file) {
		_ = s.root.Remove(name) // another owner's came first; else it goes with time
		next, _, err := s.Offset(ctx, u)
		return next, err
	}
	next, err := s.extend(ctx, name, offset, r)
	if err == nil && last {
		err = s.complete(name, u.Hash)
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
		return next, blob.DiskError(fmt.Errorf("append to blob: %w", err))
	}
	return next, nil
}

// extend adds to a partial file. What came before r failed stays, but not what
// the disk had no room for: others need it.
func (s *Store) extend(ctx context.Context, name string, offset int64, r io.Reader) (next int64, err error) {
	f, err := s.openPartial(name, offset == 0)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, elsewhere(0, offset)
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	if size != offset {
		return size, elsewhere(size, offset)
	}
	n, err := io.Copy(f, blob.Until(ctx, r))
	switch {
	case platform.IsDiskFull(err):
		return size, errors.Join(err, f.Truncate(size))
	case err != nil && size+n == 0:
		return 0, errors.Join(err, s.root.Remove(name)) // nothing came: it holds no place
	}
	return size + n, errors.Join(err, f.Close())
}

func elsewhere(size, offset int64) error {
	return model.Errorf(model.CodeConflict, "%d bytes of this blob are here, not %d", size, offset).WithHint("continue after them")
}

// openPartial opens a partial file; begin makes one if there is room for it.
func (s *Store) openPartial(name string, begin bool) (*os.File, error) {
	f, err := s.root.OpenFile(name, os.O_WRONLY, 0)
	if !begin || !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	s.beginning.Lock()
	defer s.beginning.Unlock()
	if err := s.makeWay(ownerOf(name)); err != nil {
		return nil, err
	}
	return s.root.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o600)
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
		return blob.OtherHash(got, want)
	}
	return errors.Join(f.Sync(), f.Close())
}

// makeWay finds a place for one more upload of an owner. Where all places are taken,
// those who have most give one up.
func (s *Store) makeWay(owner string) error {
	names, err := s.partials()
	if err != nil {
		return err
	}
	of, greatest := map[string][]string{}, owner
	for _, name := range names {
		by := ownerOf(name)
		if of[by] = append(of[by], name); len(of[by]) > len(of[greatest]) {
			greatest = by
		}
	}
	most := mostPartials
	if len(of[owner]) == 0 {
		most += mostPartials / 4
	}
	switch {
	case len(of[owner]) >= ownPartials:
		return s.dropRested(of[owner])
	case len(names) >= most:
		return s.dropRested(of[greatest])
	}
	return nil
}

// dropRested removes the partial file that rests longest.
func (s *Store) dropRested(names []string) error {
	longest, oldest := "", time.Now().Add(-rest)
	for _, name := range names {
		if info, err := s.root.Stat(name); err == nil && info.ModTime().Before(oldest) && !s.busy.Has(name) {
			longest, oldest = name, info.ModTime()
		}
	}
	if longest == "" {
		return model.Errorf(model.CodeBusy, "too many uploads have begun and are not at their end: %d", len(names)).
			WithHint("Send it again later. A key can have %d; one that rests for %v makes way.", ownPartials, rest)
	}
	return s.dropPartial(longest)
}

// partials are the names of all partial files.
func (s *Store) partials() ([]string, error) {
	d, err := s.root.Open(partial)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	for i := range names {
		names[i] = partial + "/" + names[i]
	}
	return names, err
}

// dropPartial removes a partial file, unless somebody adds to it now.
func (s *Store) dropPartial(name string) error {
	if !s.busy.Reserve(name) {
		return nil
	}
	defer s.busy.Release(name)
	if err := s.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// expire removes the partial files that nothing was added to since a time.
func (s *Store) expire(before time.Time) error {
	names, err := s.partials()
	if err != nil {
		return fmt.Errorf("sweep parts of blobs: %w", err)
	}
	for _, name := range names {
		if info, err := s.root.Stat(name); err != nil || !info.ModTime().Before(before) {
			continue // it is gone, or young
		}
		if err := s.dropPartial(name); err != nil {
			return fmt.Errorf("sweep parts of blobs: %w", err)
		}
	}
	return nil
}
