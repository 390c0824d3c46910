package backup

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/kymogram/kymogram/server/internal/progress"
)

// Source is a data folder that a server may be using: where its parts lie in it, and
// how to read them. The functions are those of its back ends.
type Source struct {
	Folder                               string
	Store, Catalog, States, Blobs, Marks string // names in the folder

	// CopyCatalog copies the catalog as it is now and tells the highest position of
	// the store's log that it knows. It may make more files and folders whose names begin
	// with the catalog's.
	CopyCatalog func(ctx context.Context, from, to string) (highest uint64, err error)
	// CopyStates copies the signed records as they are now, where there are any.
	CopyStates func(ctx context.Context, from, to string) error
	// CopyStore puts every file of the store, which knows at least highest.
	CopyStore func(ctx context.Context, highest uint64, put func(name string, size int64, r io.Reader) error) error
	// ListBlobs names every file below a folder.
	ListBlobs func(ctx context.Context, folder string, each func(path string) error) error
}

// Backup copies the folder into a new one, which is there whole or not at all.
//
// The store was opened first and the catalog is copied after it: the catalog may then
// know more than the store, as when a client sends again, but never less. Blobs come
// last, since the catalog names them. The manifest with all checksums ends it.
func (s *Source) Backup(ctx context.Context, to, version string, bar progress.Bar) (*Copied, error) {
	began := time.Now()
	c, err := startCopy(s.Folder, to, bar)
	if err != nil {
		return nil, err
	}
	highest, err := s.CopyCatalog(ctx, filepath.Join(s.Folder, s.Catalog), filepath.Join(c.partial(), s.Catalog))
	if err != nil {
		return nil, err
	}
	err = s.CopyStates(ctx, filepath.Join(s.Folder, s.States), filepath.Join(c.partial(), s.States))
	if err != nil {
		return nil, err
	}
	if err := c.adoptAll(); err != nil {
		return nil, err
	}
	err = s.CopyStore(ctx, highest, func(name string, size int64, r io.Reader) error {
		return c.put(filepath.Join(s.Store, name), size, r)
	})
	if err != nil {
		return nil, err
	}
	err = s.ListBlobs(ctx, filepath.Join(s.Folder, s.Blobs), func(path string) error {
		return c.putFile(s.Folder, filepath.Join(s.Blobs, path))
	})
	if err != nil {
		return nil, err
	}
	if err := s.copyRest(c); err != nil {
		return nil, err
	}
	if err := c.sign(s.Folder, version, began); err != nil {
		return nil, err
	}
	return c.finish("saved", began)
}

// copyRest takes what else lies in the folder: keys, TLS.
func (s *Source) copyRest(c *copying) error {
	return filepath.WalkDir(s.Folder, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		name, err := filepath.Rel(s.Folder, path)
		if err != nil {
			return err
		}
		switch {
		case name == s.Store || name == s.Blobs || name == s.Marks: // marks are of the original: the copy is behind them
			return fs.SkipDir
		case !d.Type().IsRegular(), strings.HasPrefix(name, s.Catalog), strings.HasPrefix(name, s.States), strings.HasPrefix(name, ".probe-"), name == manifestFile, name == servedFile:
			return nil
		}
		return c.putFile(s.Folder, name)
	})
}
