package local

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
)

// migrate takes a folder of an older version. Every file says its own version and
// is read as that, so all there is to do is to keep older programs out before the
// first file that they cannot read: segments of version 1 stay until a merge
// rewrites them (docs/format/segment.md, Versions).
func (e *Engine) migrate(from int) error {
	if err := e.writeVersion(); err != nil {
		return err
	}
	e.cfg.Logger.Info("the data folder has a newer format now; older versions of kymogram refuse it", "from", from, "to", Version)
	return nil
}

// writeVersion replaces VERSION as a whole: a crash leaves the old one or the new.
func (e *Engine) writeVersion() error {
	fs, name := e.cfg.FS, filepath.Join(e.cfg.Dir, "VERSION")
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
		err = fs.SyncDir(e.cfg.Dir)
	}
	if err != nil {
		return fmt.Errorf("write VERSION: %w", err)
	}
	return nil
}
