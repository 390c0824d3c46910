package data

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/kymogram/kymogram/internal/model"
)

// The data folder. Its lock and version are the store's.
const (
	StoreFolder = "store"
	BlobFolder  = "blobs"
	CatalogFile = "catalog.db"
	BlobKeyFile = "blob.key"
)

// Folder is the path of a data folder.
type Folder string

// Store is where points lie.
func (f Folder) Store() string { return filepath.Join(string(f), StoreFolder) }

// Catalog is the file of runs and keys.
func (f Folder) Catalog() string { return filepath.Join(string(f), CatalogFile) }

// Blobs is where files lie.
func (f Folder) Blobs() string { return filepath.Join(string(f), BlobFolder) }

// Claim makes a data folder and checks that it can be written.
func Claim(folder string) error {
	err := os.MkdirAll(folder, 0o700)
	if err == nil {
		err = probe(folder)
	}
	if err == nil {
		return nil
	}
	refused := model.Errorf(model.CodeInvalid, "cannot use the data folder %s: %v", folder, err)
	if errors.Is(err, fs.ErrPermission) {
		return refused.WithHint("give this user the folder (chown), or choose another with --data DIR")
	}
	return refused.WithHint("choose a folder on a writable disk with --data DIR")
}

// probe writes a file: permissions alone do not tell of read-only mounts.
func probe(folder string) error {
	f, err := os.CreateTemp(folder, ".probe-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// SizeOf adds up the files below a folder; what comes and goes meanwhile may be
// missed.
func SizeOf(folder string) (n int64) {
	_ = filepath.WalkDir(folder, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // a file that is gone has no size
		}
		if info, err := d.Info(); err == nil {
			n += info.Size()
		}
		return nil
	})
	return n
}
