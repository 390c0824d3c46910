package transfer

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"

	"github.com/kymogram/kymogram/internal/platform"
	"github.com/kymogram/kymogram/internal/spool"
	"github.com/kymogram/kymogram/server/internal/delivery"
)

// importSpool is the spool of one import, a folder in TMPDIR that is locked while
// the import runs. An import that is interrupted or killed leaves it there, and the
// next one to the same server delivers it before anything else.
type importSpool struct {
	*spool.Folder
	lock *os.File
}

// importSpoolName begins the names of the spools for a server.
func importSpoolName(server string) string {
	sum := sha256.Sum256([]byte(server))
	return "kymogram-import-" + hex.EncodeToString(sum[:4]) + "-"
}

func newImportSpool(server string) (*importSpool, error) {
	path, err := os.MkdirTemp("", importSpoolName(server))
	if err != nil {
		return nil, fmt.Errorf("make a spool: %w", err)
	}
	// Its lock gets its name when we have it: another import leaves a folder without
	// one alone.
	name := filepath.Join(path, importLock)
	made := name
	if platform.RenamesOpenFolders {
		made += ".new"
	}
	s, err := lockImportSpool(path, made, os.O_CREATE)
	if err == nil && made != name {
		err = os.Rename(made, name)
	}
	return s, err
}

const importLock = "import.lock"

// openImportSpool gives nil for one that an import uses.
func openImportSpool(path string) (*importSpool, error) {
	return lockImportSpool(path, filepath.Join(path, importLock), 0)
}

func lockImportSpool(path, name string, flag int) (*importSpool, error) {
	folder, err := spool.OpenFolder(path) // it has to be our own
	if err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(name, os.O_RDWR|flag|platform.NoFollow, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock a spool: %w", err)
	}
	if ok, err := platform.TryLock(lock); !ok {
		lock.Close()
		return nil, err
	}
	return &importSpool{folder, lock}, nil
}

// close removes the spool when everything in it is delivered, and else says what
// waits there.
func (s *importSpool) close() (left delivery.Left, err error) {
	if left, err = delivery.LeftIn(s.Folder); err == nil && left.Writers == 0 {
		err = os.RemoveAll(s.Path)
	}
	s.lock.Close()
	return left, err
}
