package main

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

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/server/internal/blob/dir"
	"github.com/kymogram/kymogram/server/internal/catalog/sqlite"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

// manifestFile lists a backup's files; it is written last.
const (
	manifestFile    = "BACKUP.json"
	manifestVersion = 1
	partialSuffix   = ".partial"
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

// copied is what data backup and data restore tell.
type copied struct {
	Folder  string  `json:"folder"`
	Files   int     `json:"files"`
	Bytes   int64   `json:"bytes"`
	Seconds float64 `json:"seconds"`
}

func dataBackupCommand(io stdio) *cobra.Command {
	var f folder
	var to string
	cmd := &cobra.Command{
		Use:   "backup --to DIR",
		Short: "Copy everything into a new folder, while the server runs",
		Long: "Copy a data folder (points, marks of writers, catalog, files, keys) into a new\n" +
			"one, while the server runs. The copy is a data folder itself: for every run a\n" +
			"state of the moment when the backup began, or a little later. It holds keys, so\n" +
			"keep it as safe as the original.",
		Example: `  kymogram data backup --data /var/lib/kymogram --to /backup/$(date +%F)
  kymogram data verify --data /backup/2026-11-21`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if to == "" {
				return usagef("where to? name a new folder with --to DIR")
			}
			done, err := f.backup(cmd.Context(), io, to)
			if err != nil {
				return explainFault(f.data, err)
			}
			return done.print(io, f.json, "saved")
		},
	}
	f.addTo(cmd, io)
	cmd.Flags().StringVar(&to, "to", "", "the folder to make")
	return cmd
}

func (c *copied) print(io stdio, asJSON bool, verb string) error {
	if asJSON {
		return printJSON(io.out, c)
	}
	_, err := fmt.Fprintf(io.out, "%s %d files, %s, in %s (%.1f s)\n", verb, c.Files, bytesText(c.Bytes), c.Folder, c.Seconds)
	return err
}

// copying writes a folder under another name and renames it when all is there.
type copying struct {
	to   string
	rows []manifestRow
	bar  *progressbar.ProgressBar
}

// startCopy makes the unfinished folder.
func startCopy(to string, bar *progressbar.ProgressBar) (*copying, error) {
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

// adopt lists a file that something else wrote into the unfinished folder.
func (c *copying) adopt(name string) error {
	row, err := hashFile(c.partial(), name)
	if err == nil {
		_ = c.bar.Add64(row.Size)
		c.rows = append(c.rows, row)
	}
	return err
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

// finish gives the folder its name once everything in it is on disk.
func (c *copying) finish(began time.Time) (*copied, error) {
	done := &copied{Folder: c.to, Files: len(c.rows), Seconds: time.Since(began).Seconds()}
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
	_ = c.bar.Finish()
	return done, nil
}

// backup copies the store first and the catalog after it: the catalog may then
// know more than the store, as when a client sends again, but never less. Blobs
// come last, since the catalog names them.
func (f *folder) backup(ctx context.Context, std stdio, to string) (*copied, error) {
	began := time.Now()
	store, err := local.OpenFolder(ctx, wal.OS{}, f.store())
	if err != nil {
		return nil, err
	}
	defer store.Close()
	c, err := startCopy(to, bytesBar(std, true, sizeOf(f.data), "backup"))
	if err != nil {
		return nil, err
	}
	highest, err := sqlite.Copy(ctx, f.catalog(), filepath.Join(c.partial(), catalogFile))
	if err != nil {
		return nil, err
	}
	if err := c.adopt(catalogFile); err != nil {
		return nil, err
	}
	err = store.CopyTo(ctx, highest, func(name string, size int64, r io.Reader) error {
		return c.put(filepath.Join(storeFolder, name), size, r)
	})
	if err != nil {
		return nil, err
	}
	if err := dir.List(ctx, f.blobs(), func(e dir.Entry) error { return c.putFile(f.data, filepath.Join(blobFolder, e.Path)) }); err != nil {
		return nil, err
	}
	if err := f.copyRest(c); err != nil {
		return nil, err
	}
	if err := c.sign(f.data, began); err != nil {
		return nil, err
	}
	return c.finish(began)
}

// copyRest takes what else lies in the folder: keys, TLS.
func (f *folder) copyRest(c *copying) error {
	return filepath.WalkDir(f.data, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		name, err := filepath.Rel(f.data, path)
		if err != nil {
			return err
		}
		switch {
		case name == storeFolder || name == blobFolder:
			return fs.SkipDir
		case !d.Type().IsRegular(), strings.HasPrefix(name, catalogFile), strings.HasPrefix(name, ".probe-"), name == manifestFile:
			return nil
		}
		return c.putFile(f.data, name)
	})
}

// sign writes the manifest: with it the backup is complete.
func (c *copying) sign(source string, began time.Time) error {
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

// changedSince lists the files of a backup that are not what they were.
func changedSince(ctx context.Context, folder string) (changed []string, err error) {
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
			changed = append(changed, fmt.Sprintf("%s is not what was saved", row.Path))
		}
	}
	return changed, nil
}

func dataRestoreCommand(io stdio) *cobra.Command {
	var f folder
	var from string
	cmd := &cobra.Command{
		Use:   "restore --from DIR",
		Short: "Make a data folder from a backup",
		Long: "Make a data folder from a backup; every file is compared with its checksum. The\n" +
			"folder must be new or empty: move the old one away first. Clients then go on by\n" +
			"themselves. What they had delivered since the backup and no longer keep is shown\n" +
			"in the ledger of its run as skipped (restored).",
		Example: "  mv /var/lib/kymogram /var/lib/kymogram.old\n  kymogram data restore --from /backup/2026-11-21 --data /var/lib/kymogram",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if from == "" {
				return usagef("what from? name a backup with --from DIR")
			}
			done, err := f.restore(cmd.Context(), io, from)
			if err != nil {
				return explainFault(f.data, err)
			}
			return done.print(io, f.json, "restored")
		},
	}
	f.addTo(cmd, io)
	cmd.Flags().StringVar(&from, "from", "", "the folder that data backup made")
	return cmd
}

func (f *folder) restore(ctx context.Context, io stdio, from string) (*copied, error) {
	began := time.Now()
	m, err := readManifest(from)
	if err != nil {
		return nil, err
	}
	if m == nil {
		return nil, model.Errorf(model.CodeNotFound, "%s is no complete backup: it has no %s", from, manifestFile).WithHint("name the folder that `kymogram data backup --to` made")
	}
	c, err := startCopy(f.data, bytesBar(io, true, sizeOf(from), "restore"))
	if err != nil {
		return nil, err
	}
	for i, row := range m.Files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := c.putFile(from, filepath.FromSlash(row.Path)); err != nil {
			return nil, err
		}
		if len(c.rows) != i+1 || c.rows[i] != row {
			return nil, model.Errorf(model.CodeInternal, "%s in the backup is not what was saved", row.Path).WithHint("take another backup; `kymogram data verify --data %s` lists all that is damaged", from)
		}
	}
	return c.finish(began)
}
