// Package dir keeps blobs as files of one folder, by hash. It writes into a
// temporary file, syncs it and renames it, so a blob is there as a whole or not
// at all. Every path goes through an os.Root: nothing outside can be reached.
package dir

import (
	"context"
	"crypto/md5" //nolint:gosec // clients compare what they sent by it; names are SHA-256
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"sync"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/blob"
)

const tmp = "tmp"

// Store keeps blobs in a folder.
type Store struct {
	root   *os.Root
	folder string
	// sweeping keeps a blob that is being put again from being swept.
	sweeping sync.Mutex

	verdicts *verdicts

	busy      blob.Busy  // partial files that are added to now
	beginning sync.Mutex // of a partial file
}

// Open uses a folder, makes it when it is missing and clears what a crash left
// half written.
func Open(folder string) (*Store, error) { return OpenWith(folder, slog.New(slog.DiscardHandler)) }

// OpenWith is Open with a log, which names damaged files.
func OpenWith(folder string, log *slog.Logger) (*Store, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of blobs: %w", err)
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, fmt.Errorf("open the folder of blobs: %w", err)
	}
	err = root.RemoveAll(tmp)
	for _, name := range []string{tmp, partial} {
		if made := root.Mkdir(name, 0o700); !errors.Is(made, fs.ErrExist) {
			err = errors.Join(err, made)
		}
	}
	if err != nil {
		_ = root.Close()
		return nil, fmt.Errorf("clear the folder of blobs: %w", err)
	}
	return &Store{root: root, folder: folder, verdicts: newVerdicts(log)}, nil
}

// Close releases the folder.
func (s *Store) Close() error { return s.root.Close() }

// place spreads blobs over 256 folders.
func place(h blob.Hash) (folder, file string) {
	name := h.String()
	return name[:2], path.Join(name[:2], name[2:])
}

// Put implements [blob.Store].
func (s *Store) Put(ctx context.Context, h blob.Hash, r io.Reader) error {
	folder, file := place(h)
	if s.renew(h, file) {
		return nil
	}
	name := path.Join(tmp, rand.Text())
	if err := s.write(ctx, name, h, r); err != nil {
		_ = s.root.Remove(name)
		return blob.DiskError(fmt.Errorf("put blob: %w", err))
	}
	if err := s.publish(name, folder, file); err != nil {
		_ = s.root.Remove(name)
		return blob.DiskError(fmt.Errorf("put blob: %w", err))
	}
	return nil
}

// Keep implements [blob.Store].
func (s *Store) Keep(ctx context.Context, r io.Reader, limit int64) (h blob.Hash, size int64, sum [md5.Size]byte, err error) {
	name := path.Join(tmp, rand.Text())
	k := &keeping{sha256.New(), md5.New()}
	if size, err = s.keep(ctx, name, k, r, limit); err == nil {
		h = blob.Hash(k.sha256.Sum(nil))
		err = s.publishOnce(name, h)
	}
	if err != nil {
		_ = s.root.Remove(name)
		return blob.Hash{}, 0, sum, blob.DiskError(fmt.Errorf("keep blob: %w", err))
	}
	k.md5.Sum(sum[:0])
	return h, size, sum, nil
}

// keeping are the sums of bytes whose names are not known.
type keeping struct{ sha256, md5 hash.Hash }

// keep writes a file and makes its bytes durable.
func (s *Store) keep(ctx context.Context, name string, k *keeping, r io.Reader, limit int64) (size int64, err error) {
	f, err := s.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	from := io.LimitReader(blob.Until(ctx, r), limit)
	if size, err = io.Copy(io.MultiWriter(f, k.sha256, k.md5), from); err != nil {
		return 0, err
	}
	if more, err := blob.HasMore(blob.Until(ctx, r)); err != nil {
		return 0, err
	} else if more {
		return 0, model.Errorf(model.CodeTooLarge, "the file has more than %d bytes", limit)
	}
	return size, errors.Join(f.Sync(), f.Close())
}

// publishOnce gives a file its name. Where a blob has that name already, the file goes.
func (s *Store) publishOnce(name string, h blob.Hash) error {
	folder, file := place(h)
	if s.renew(h, file) {
		return s.root.Remove(name)
	}
	return s.publish(name, folder, file)
}

// renew makes a blob that is there as young as a new one; false when it is not, or is
// known to be damaged.
func (s *Store) renew(h blob.Hash, file string) bool {
	s.sweeping.Lock()
	defer s.sweeping.Unlock()
	info, err := s.root.Stat(file)
	if err != nil || s.isDamaged(h, info) {
		return false
	}
	_, known := s.verdicts.known(h, info)
	now := time.Now()
	if s.root.Chtimes(file, now, now) != nil {
		return false
	}
	if info, err := s.root.Stat(file); err == nil && known {
		s.verdicts.note(h, info, true) // it is the same file
	}
	return true
}

func (s *Store) write(ctx context.Context, name string, want blob.Hash, r io.Reader) error {
	f, err := s.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(f, sum), blob.Until(ctx, r)); err != nil {
		return err
	}
	if got := blob.Hash(sum.Sum(nil)); got != want {
		return blob.OtherHash(got, want)
	}
	return errors.Join(f.Sync(), f.Close())
}

// publish renames and makes the names durable: the file's, and its folder's.
func (s *Store) publish(name, folder, file string) error {
	if err := s.root.Mkdir(folder, 0o700); err == nil {
		err = s.sync(".")
		if err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := s.root.Rename(name, file); err != nil {
		return err
	}
	return s.sync(folder)
}

func (s *Store) sync(folder string) error {
	d, err := s.root.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Open implements [blob.Store].
func (s *Store) Open(ctx context.Context, h blob.Hash) (blob.Reader, error) {
	_, file := place(h)
	f, err := s.root.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, blob.NotFound(h)
	}
	if err != nil {
		return nil, fmt.Errorf("open blob: %w", err)
	}
	info, err := f.Stat()
	if err == nil {
		err = s.verdicts.check(ctx, h, f, info)
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("open blob: %w", err)
	}
	return reader{f, info.Size()}, nil
}

// Delete implements [blob.Store].
func (s *Store) Delete(_ context.Context, h blob.Hash) error {
	folder, file := place(h)
	err := s.root.Remove(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = s.sync(folder)
	}
	if err != nil {
		return fmt.Errorf("delete blob: %w", err)
	}
	return nil
}

type reader struct {
	*os.File
	size int64
}

func (r reader) Size() int64 { return r.size }
