package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal"
)

// manifestFile lists a backup's files; it is written last.
const (
	manifestFile    = "BACKUP.json"
	servedFile      = "BACKUP.served.json" // the manifest of what is in use since
	manifestVersion = 1
)

// manifest says what a backup is. A backup without one is not complete.
type manifest struct {
	Format  int           `json:"format"`
	Version string        `json:"version"` // of the program
	MadeNs  int64         `json:"made_ns"`
	Source  string        `json:"source"`
	Files   []manifestRow `json:"files"`
}

type manifestRow struct {
	Path   string `json:"path"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

func hashFile(root, name string) (manifestRow, error) {
	f, err := os.Open(filepath.Join(root, name))
	if err != nil {
		return manifestRow{}, err
	}
	defer f.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, f)
	return manifestRow{filepath.ToSlash(name), n, hex.EncodeToString(sum.Sum(nil))}, err
}

// sign writes the manifest: with it the backup is complete.
func (c *copying) sign(source, version string, began time.Time) error {
	if full, err := filepath.Abs(source); err == nil {
		source = full
	}
	doc, err := json.MarshalIndent(manifest{Format: manifestVersion, Version: version, MadeNs: began.UnixNano(), Source: source, Files: c.rows}, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", manifestFile, err)
	}
	rows := c.rows
	err = c.put(manifestFile, -1, strings.NewReader(string(doc)))
	c.rows = rows
	return err
}

// readManifest is nil for a folder that is no backup.
func readManifest(folder string) (*manifest, error) {
	doc, err := os.ReadFile(filepath.Join(folder, manifestFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // no backup, as said above
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", manifestFile, err)
	}
	var m manifest
	if err := json.Unmarshal(doc, &m); err != nil {
		return nil, model.Errorf(model.CodeInvalid, "%s is damaged: %v", filepath.Join(folder, manifestFile), err)
	}
	if m.Format > manifestVersion {
		return nil, model.Errorf(model.CodeInvalid, "the backup %s has format %d, this program knows %d", folder, m.Format, manifestVersion).WithHint("use a newer kymogram")
	}
	for _, row := range m.Files {
		if !filepath.IsLocal(filepath.FromSlash(row.Path)) {
			return nil, model.Errorf(model.CodeInvalid, "the backup %s names a file outside itself: %q", folder, row.Path)
		}
	}
	return &m, nil
}

// Live makes a backup a data folder as any other, before its first change: then its
// files are not those of the manifest any more, which is set aside. It says whether there
// was one.
func Live(folder string) (bool, error) {
	err := os.Rename(filepath.Join(folder, manifestFile), filepath.Join(folder, servedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("set aside %s: %w", manifestFile, err)
	}
	return true, wal.OS{}.SyncDir(folder)
}

// served says that a folder was a backup, and is in use since.
func served(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, servedFile))
	return err == nil
}

// Changed lists the files of a backup that are not what they were.
func Changed(ctx context.Context, folder string) (changed []string, err error) {
	m, err := readManifest(folder)
	if m == nil || err != nil {
		return nil, err
	}
	for _, row := range m.Files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		got, err := hashFile(folder, filepath.FromSlash(row.Path))
		if err != nil || got != row {
			changed = append(changed, notSaved(row))
		}
	}
	return changed, nil
}

func notSaved(row manifestRow) string { return row.Path + " is not what was saved" }
