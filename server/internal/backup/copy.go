package backup

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/server/internal/progress"
	"github.com/kymogram/kymogram/server/internal/table"
)

// Copied is what a copy came to, as `kymogram data backup --json` prints it.
type Copied struct {
	Folder  string  `json:"folder"`
	Files   int     `json:"files"`
	Bytes   int64   `json:"bytes"`
	Seconds float64 `json:"seconds"`
	// Damaged are the files that came as they are, since the backup has them damaged.
	Damaged []string `json:"damaged,omitempty"`

	verb string
}

// Print writes it for a person.
func (c *Copied) Print(out io.Writer) error {
	for _, text := range c.Damaged {
		if _, err := fmt.Fprintf(out, "DAMAGED %s\n", text); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, "%s %d files, %s, in %s (%.1f s)\n", c.verb, c.Files, table.Bytes(c.Bytes), c.Folder, c.Seconds)
	return err
}

// partialSuffix names a copy that is not finished.
const partialSuffix = ".partial"

// copying writes a folder under another name and renames it when all is there.
type copying struct {
	to   string
	rows []manifestRow
	bar  progress.Bar
}

// startCopy makes the unfinished folder. It refuses one inside the folder that is copied.
func startCopy(from, to string, bar progress.Bar) (*copying, error) {
	if below, err := isBelow(to, from); err != nil {
		return nil, fmt.Errorf("look at %s: %w", to, err)
	} else if below {
		return nil, model.Errorf(model.CodeInvalid, "%s lies in %s: the copy would contain itself", to, from).
			WithHint("name a folder outside of it, best on another disk")
	}
	if entries, err := os.ReadDir(to); err == nil && len(entries) > 0 {
		return nil, model.Errorf(model.CodeConflict, "%s is there and not empty", to).WithHint("name a new folder, or move that one away")
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("look at %s: %w", to, err)
	}
	c := &copying{to: filepath.Clean(to), bar: bar}
	if err := os.RemoveAll(c.partial()); err != nil {
		return nil, fmt.Errorf("remove what an earlier try left: %w", err)
	}
	if err := os.MkdirAll(c.partial(), 0o700); err != nil {
		return nil, fmt.Errorf("make %s: %w", c.partial(), err)
	}
	return c, nil
}

// isBelow says whether a path, which need not exist, is a folder or lies in it. Links
// are followed.
func isBelow(path, folder string) (bool, error) {
	top, err := os.Stat(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // whoever reads the folder says so
	}
	if err != nil {
		return false, err
	}
	if path, err = filepath.Abs(path); err != nil {
		return false, err
	}
	for ; ; path = filepath.Dir(path) {
		target, err := filepath.EvalSymlinks(path)
		if err == nil {
			path = target
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || path == filepath.Dir(path) {
			return false, err
		}
	}
	for ; ; path = filepath.Dir(path) {
		if info, err := os.Stat(path); err == nil && os.SameFile(info, top) {
			return true, nil
		}
		if path == filepath.Dir(path) {
			return false, nil
		}
	}
}

func (c *copying) partial() string { return c.to + partialSuffix }

// put writes a file and syncs it.
func (c *copying) put(name string, size int64, r io.Reader) error {
	path := filepath.Join(c.partial(), name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("copy %s: %w", name, err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("copy %s: %w", name, err)
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, sum, c.bar), r)
	if err == nil && size >= 0 && n != size {
		err = fmt.Errorf("%d bytes came, not %d", n, size)
	}
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("copy %s: %w", name, err)
	}
	c.rows = append(c.rows, manifestRow{filepath.ToSlash(name), n, hex.EncodeToString(sum.Sum(nil))})
	return nil
}

// putFile copies a file as it is now; one that is gone by now is none.
func (c *copying) putFile(root, name string) error {
	f, err := os.Open(filepath.Join(root, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("copy %s: %w", name, err)
	}
	defer f.Close()
	return c.put(name, -1, f)
}

// adoptAll lists the files that something else wrote into the unfinished folder.
func (c *copying) adoptAll() error {
	return filepath.WalkDir(c.partial(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(c.partial(), path)
		if err == nil {
			err = os.Chmod(path, 0o600)
		}
		if err != nil {
			return fmt.Errorf("copy %s: %w", name, err)
		}
		row, err := hashFile(c.partial(), name)
		if err == nil {
			c.bar.Done(row.Size)
			c.rows = append(c.rows, row)
		}
		return err
	})
}

// finish gives the folder its name once everything in it is on disk.
func (c *copying) finish(verb string, began time.Time) (*Copied, error) {
	done := &Copied{verb: verb, Folder: c.to, Files: len(c.rows), Seconds: time.Since(began).Seconds()}
	for _, row := range c.rows {
		done.Bytes += row.Size
	}
	var folders []string
	err := filepath.WalkDir(c.partial(), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			folders = append(folders, path)
		}
		return err
	})
	for _, path := range folders {
		err = errors.Join(err, wal.OS{}.SyncDir(path))
	}
	if rerr := os.Remove(c.to); err == nil && rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
		return nil, model.Errorf(model.CodeInvalid, "the empty folder %s cannot be replaced: %v", c.to, rerr).
			WithHint("everything is in %s; is it a mount point? then move the files into it by hand, or name a folder below it", c.partial())
	}
	if err == nil {
		err = os.Rename(c.partial(), c.to)
	}
	if err == nil {
		err = wal.OS{}.SyncDir(filepath.Dir(c.to))
	}
	if err != nil {
		return nil, fmt.Errorf("finish %s: %w", c.to, err)
	}
	c.bar.End()
	return done, nil
}
