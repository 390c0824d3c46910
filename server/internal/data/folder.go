package data

import (
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/platform"
	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/server/internal/backup"
)

// The data folder. Its lock and version are the store's.
const (
	StoreFolder = "store"
	BlobFolder  = "blobs"
	CatalogFile = "catalog.db"
	// ElsewhereFile names the database that has the catalog instead of CatalogFile.
	ElsewhereFile = "catalog.elsewhere"
	// StoreElsewhereFile names the database that has the points instead of StoreFolder.
	StoreElsewhereFile = "store.elsewhere"
	// NodeFile names this folder among those of servers that share points.
	NodeFile    = "node"
	StateFile   = "state.db"
	BlobKeyFile = "blob.key"
	LogKeyFile  = "log.key"
	// AdminKeyFile has the first key, see package auth.
	AdminKeyFile = "admin.key"
	// MarksFolder says how far the store and the catalog were, apart from both.
	MarksFolder = "marks"
	// ReserveFile is space for a full disk, see package reserve.
	ReserveFile = "reserve"
)

// Folder is the path of a data folder.
type Folder string

// Store is where points lie.
func (f Folder) Store() string { return filepath.Join(string(f), StoreFolder) }

// Catalog is the file of runs and keys.
func (f Folder) Catalog() string { return filepath.Join(string(f), CatalogFile) }

// States is the file of signed records.
func (f Folder) States() string { return filepath.Join(string(f), StateFile) }

// Blobs is where files lie.
func (f Folder) Blobs() string { return filepath.Join(string(f), BlobFolder) }

// Marks is where the newest of what store and catalog had is noted.
func (f Folder) Marks() string { return filepath.Join(string(f), MarksFolder) }

// CatalogMark is where the catalog notes how far it is.
func (f Folder) CatalogMark() string { return filepath.Join(f.Marks(), "CATALOG") }

// StateMark is where the signed records note how many they are.
func (f Folder) StateMark() string { return filepath.Join(f.Marks(), "STATE") }

// Lock takes the folder as a server does: wal.ErrLocked while one runs.
func (f Folder) Lock() (io.Closer, error) { return wal.OS{}.Lock(f.lockFile()) }

func (f Folder) lockFile() string { return filepath.Join(f.Store(), "LOCK") }

// Live makes a backup a folder as any other, where it is one. Who holds the lock calls it
// before the first change.
func (f Folder) Live(log *slog.Logger) error {
	was, err := backup.Live(string(f))
	if was {
		log.Warn("this folder is a backup; from now on it is a live data folder, and no backup any more", "folder", string(f))
	}
	return err
}

// Claim makes a data folder and checks that it can be written, by this user alone.
func Claim(folder string) error {
	err := os.MkdirAll(folder, 0o700)
	if err == nil {
		err = closeToOthers(folder)
	}
	if err == nil {
		err = probe(folder)
	}
	var explained *model.Error
	if err == nil || errors.As(err, &explained) {
		return err
	}
	refused := model.Errorf(model.CodeInvalid, "cannot use the data folder %s: %v", folder, err)
	if errors.Is(err, fs.ErrPermission) {
		return refused.WithHint("give this user the folder (chown), or choose another with --data DIR")
	}
	return refused.WithHint("choose a folder on a writable disk with --data DIR")
}

// closeToOthers makes a folder of this user private. In a folder of another user
// that others may enter, they may have put or changed files: it is refused.
func closeToOthers(folder string) error {
	info, err := os.Stat(folder)
	if err != nil || platform.IsPrivate(info) {
		return err
	}
	if !platform.IsMine(info) {
		return model.Errorf(model.CodePermission, "the data folder %s belongs to another user, and others may enter it (mode %04o)", folder, info.Mode().Perm()).
			WithHint("give it to the server's user and close it: chown USER %[1]s && chmod 700 %[1]s; or choose another with --data DIR", folder)
	}
	return os.Chmod(folder, 0o700)
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
