package local

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal"
)

// Version is the format of the data folder that this engine writes.
const Version = 5

// claim locks the folder and checks its version.
func (e *Engine) claim() error {
	if err := e.cfg.FS.MkdirAll(e.cfg.Dir); err != nil {
		return fmt.Errorf("make data folder: %w", err)
	}
	lock, err := e.cfg.FS.Lock(filepath.Join(e.cfg.Dir, "LOCK"))
	if errors.Is(err, wal.ErrLocked) {
		return model.Errorf(model.CodeUnavailable, "the data folder %s is in use by another process", e.cfg.Dir).WithHint("stop the other server, or give this one another --data folder")
	}
	if err != nil {
		return fmt.Errorf("lock data folder: %w", err)
	}
	e.lock = lock
	if err = e.checkVersion(); err == nil && e.cfg.Marks != "" {
		err = e.makeMarks()
	}
	if err != nil {
		return errors.Join(err, lock.Close())
	}
	return nil
}

func (e *Engine) makeMarks() error {
	err := e.cfg.FS.MkdirAll(e.cfg.Marks)
	if errors.Is(err, syscall.ENOTDIR) || errors.Is(err, fs.ErrExist) {
		return model.Errorf(model.CodeInvalid, "%s is a file, and must be a folder", e.cfg.Marks).
			WithHint("Move it away; the next start makes the folder. Or run `kymogram data repair --yes`, which moves it aside.")
	}
	return err
}

func (e *Engine) checkVersion() error {
	name := filepath.Join(e.cfg.Dir, "VERSION")
	f, err := e.cfg.FS.Open(name, true)
	if err != nil {
		return fmt.Errorf("open %s: %w", name, err)
	}
	defer f.Close()
	raw := make([]byte, 64)
	n, err := f.ReadAt(raw, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read %s: %w", name, err)
	}
	text := strings.TrimSpace(strings.Trim(string(raw[:n]), "\x00"))
	if text == "" { // new, or a first start that a crash cut short
		return WriteVersion(e.cfg.FS, e.cfg.Dir)
	}
	version, err := strconv.Atoi(text)
	if err != nil {
		return model.Errorf(model.CodeInvalid, "%s does not hold a version but %q", name, text).WithHint("is %s a data folder of Kymogram? then `kymogram data repair` can mend it", e.cfg.Dir)
	}
	if version > Version {
		return model.Errorf(model.CodeInvalid, "the data folder %s has version %d and this binary reads up to %d", e.cfg.Dir, version, Version).WithHint("use a newer kymogram; nothing was changed")
	}
	if version < Version {
		return e.migrate(version)
	}
	return nil
}

// migrate takes a folder of an older version. Every file says its own version and
// is read as that, so all there is to do is to keep older programs out before the
// first file that they cannot read: segments of older versions stay until a merge
// rewrites them (docs/format/segment.md, Versions).
func (e *Engine) migrate(from int) error {
	if err := WriteVersion(e.cfg.FS, e.cfg.Dir); err != nil {
		return err
	}
	e.cfg.Logger.Info("the data folder has a newer format now; older versions of kymogram refuse it", "from", from, "to", Version)
	return nil
}

// WriteVersion replaces VERSION as a whole: a crash leaves the old one or the new. A
// folder whose files this engine reads has its version.
func WriteVersion(fs wal.FS, dir string) error {
	name := filepath.Join(dir, "VERSION")
	f, err := fs.Open(name+".tmp", true)
	if err != nil {
		return fmt.Errorf("write VERSION: %w", err)
	}
	text := []byte(strconv.Itoa(Version) + "\n")
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt(text, 0)
	}
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = fs.Rename(name+".tmp", name)
	}
	if err == nil {
		err = fs.SyncDir(dir)
	}
	if err != nil {
		return fmt.Errorf("write VERSION: %w", err)
	}
	return nil
}
