package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/platform"
	"github.com/kymogram/kymogram/internal/spool"
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
func (s *importSpool) close() (left left, err error) {
	if left, err = leftIn(s.Folder); err == nil && left.Writers == 0 {
		err = os.RemoveAll(s.Path)
	}
	s.lock.Close()
	return left, err
}

// resume delivers what earlier imports to this server left. What cannot be delivered
// stays, and keeps nothing back.
func (w *importing) resume(ctx context.Context) error {
	paths, err := filepath.Glob(filepath.Join(os.TempDir(), importSpoolName(w.server.base.String())+"*"))
	if err != nil {
		return fmt.Errorf("look for the spools of earlier imports: %w", err)
	}
	for _, path := range paths {
		folder, err := openImportSpool(path)
		if err != nil || folder == nil {
			continue // of somebody else, or at work
		}
		w.folder, w.runs = folder, 1
		err = w.deliver(ctx)
		if _, closing := folder.close(); err == nil {
			err = closing
		}
		w.folder, w.runs = nil, 0
		if ctx.Err() != nil {
			return errInterrupted
		}
		if err != nil {
			fmt.Fprintf(w.io.err, "what an earlier import left in %s is not delivered: %s\n", path, printable(withHint(err)))
		}
	}
	return nil
}

var errInterrupted = model.Errorf(model.CodeUnavailable, "interrupted").WithHint("run the import again; it goes on")
