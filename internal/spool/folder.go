package spool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/platform"
)

// Folder is a spool folder that belongs to this user.
type Folder struct {
	Path string
	FS   Filesystem
	// Passed names the folders that came first and could not be used, with why.
	Passed []string
}

// Candidates lists where a spool may lie, first choice first. env is os.Getenv
// or a stand-in.
func Candidates(env func(string) string) []string {
	var out []string
	for _, name := range []string{"KYMOGRAM_SPOOL_DIR", "METRANA_DISK_SPOOL_DIR"} {
		if dir := env(name); dir != "" {
			out = append(out, dir)
			break
		}
	}
	state := env("XDG_STATE_HOME")
	if state == "" && env("HOME") != "" {
		state = filepath.Join(env("HOME"), ".local", "state")
	}
	if state != "" {
		out = append(out, filepath.Join(state, "kymogram", "spool", hostFolder()))
	}
	name := "kymogram-" + strconv.Itoa(os.Geteuid())
	tmp := env("TMPDIR")
	if tmp == "" {
		tmp = "/tmp"
	}
	return append(out, filepath.Join("/dev/shm", name), filepath.Join(tmp, name))
}

// hostFolder is the host's name in lower case, odd characters as "-".
func hostFolder() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		return "localhost"
	}
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
			return r
		}
		return '-'
	}, strings.ToLower(host))
}

// Resolve opens the first candidate that can be made and written.
func Resolve(env func(string) string) (*Folder, error) {
	return resolve(env, func(*Folder) error { return nil })
}

// ResolveRoom is Resolve for a new writer: it passes over full disks.
func ResolveRoom(env func(string) string) (*Folder, error) { return resolve(env, (*Folder).room) }

func (f *Folder) room() error {
	if f.FS.FreeBytes/10 >= 2*firstSegment {
		return nil
	}
	return fmt.Errorf("spool folder %s has too little free space: a tenth of the free space is %d bytes", f.Path, f.FS.FreeBytes/10)
}

func resolve(env func(string) string, fits func(*Folder) error) (*Folder, error) {
	var passed []string
	for _, path := range Candidates(env) {
		folder, err := OpenFolder(path)
		if err == nil {
			err = fits(folder)
		}
		if err == nil {
			folder.Passed = passed
			return folder, nil
		}
		passed = append(passed, err.Error())
	}
	return nil, model.Errorf(model.CodeUnavailable, "no folder can hold the spool: %s", strings.Join(passed, "; ")).
		WithHint("set KYMOGRAM_SPOOL_DIR to a folder that you own and that has free space")
}

// OpenFolder makes or checks one spool folder: a real directory of this user,
// closed to others, and writable.
func OpenFolder(path string) (*Folder, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("spool folder: %w", err)
	}
	if err := makeOwned(path); err != nil {
		return nil, err
	}
	for _, sub := range []string{"writers", "rejected"} {
		if err := makeOwned(filepath.Join(path, sub)); err != nil {
			return nil, err
		}
	}
	if err := probe(path); err != nil {
		return nil, err
	}
	fs, err := inspect(path)
	if err != nil {
		return nil, err
	}
	return &Folder{Path: path, FS: fs}, nil
}

// ViewFolder looks at a spool folder without a change in it, also one that cannot
// be written.
func ViewFolder(path string) (*Folder, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("spool folder: %w", err)
	}
	if _, err := os.ReadDir(filepath.Join(path, "writers")); err != nil {
		return nil, fmt.Errorf("look at spool folder: %w", err)
	}
	fs, err := inspect(path)
	if err != nil {
		return nil, err
	}
	return &Folder{Path: path, FS: fs}, nil
}

// ofAll are the folders of all users that systems have.
var ofAll = []string{"/tmp", "/private/tmp", "/var/tmp", "/dev/shm"}

func makeOwned(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make spool folder: %w", err)
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("make spool folder: %w", err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("check spool folder: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("spool folder %s is not a directory of its own (a link or a file)", path)
	}
	if slices.Contains(ofAll, path) { // closing /tmp to others would shut them out
		return fmt.Errorf("%s is for all users; name a folder of its own, such as %s", path, filepath.Join(path, "kymogram"))
	}
	if owner, known := platform.Owner(info); known && owner != os.Geteuid() {
		return fmt.Errorf("spool folder %s belongs to user %d, not to %d", path, owner, os.Geteuid())
	}
	if info.Mode().Perm() != 0o700 {
		if err := os.Chmod(path, 0o700); err != nil {
			return fmt.Errorf("close spool folder to others: %w", err)
		}
	}
	return nil
}

func probe(path string) error {
	f, err := os.CreateTemp(path, ".probe-")
	if err != nil {
		return fmt.Errorf("write to spool folder: %w", err)
	}
	// Some network file systems have no locks, and without them nobody knows who
	// lives.
	_, err = platform.TryLock(f)
	err = errors.Join(err, f.Close(), os.Remove(f.Name()))
	if err != nil {
		return fmt.Errorf("write to spool folder: %w", err)
	}
	return nil
}

func (f *Folder) writersPath() string { return filepath.Join(f.Path, "writers") }

// WriterPath is the folder of one writer.
func (f *Folder) WriterPath(id model.WriterID) string {
	return filepath.Join(f.writersPath(), id.String())
}

// Writers lists the writers that have a folder here.
func (f *Folder) Writers() ([]model.WriterID, error) {
	entries, err := os.ReadDir(f.writersPath())
	if err != nil {
		return nil, fmt.Errorf("list writers: %w", err)
	}
	var out []model.WriterID
	for _, e := range entries {
		id, err := model.ParseWriterID(e.Name())
		if err == nil && (platform.RenamesOpenFolders || isOpened(f.WriterPath(id))) {
			out = append(out, id)
		}
	}
	return out, nil
}

// isOpened reports whether a writer that was made under its own name is complete.
func isOpened(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "open.json"))
	return err == nil
}

// Sweep removes what crashed makers and removers of writers left behind an hour
// ago or longer; a maker needs milliseconds.
func (f *Folder) Sweep(now time.Time) error {
	entries, err := os.ReadDir(f.writersPath())
	if err != nil {
		return fmt.Errorf("sweep spool: %w", err)
	}
	for _, e := range entries {
		path := filepath.Join(f.writersPath(), e.Name())
		if !strings.HasPrefix(e.Name(), tmpPrefix) && !strings.HasPrefix(e.Name(), removedPrefix) {
			continue
		}
		if info, err := e.Info(); err != nil || now.Sub(info.ModTime()) < time.Hour {
			continue
		}
		if live, err := held(filepath.Join(path, "lock")); err != nil || live {
			continue
		}
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("sweep spool: %w", err)
		}
	}
	f.sweepJobs()
	return nil
}

const (
	tmpPrefix     = ".tmp-"
	removedPrefix = ".del-"
)

// Remove deletes a writer's folder; damaged segments move to rejected/ first.
func (f *Folder) Remove(id model.WriterID) error {
	path := f.WriterPath(id)
	entries, err := os.ReadDir(path)
	if err != nil {
		return fmt.Errorf("remove writer: %w", err)
	}
	if open, err := ReadOpen(path); err == nil {
		defer f.unlist(&open.Open) // when it is gone
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), badSuffix) {
			continue
		}
		// Its mark alone, while the segment was not deleted.
		bad := filepath.Join(path, e.Name())
		if err := os.Rename(strings.TrimSuffix(bad, badSuffix), bad); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("keep damaged segment: %w", err)
		}
		to := filepath.Join(f.Path, "rejected", id.String()+"-"+e.Name())
		if err := os.Rename(bad, to); err != nil {
			return fmt.Errorf("keep damaged segment: %w", err)
		}
	}
	gone := filepath.Join(f.writersPath(), removedPrefix+id.String())
	if !platform.RenamesOpenFolders {
		gone = path
	}
	if err := os.Rename(path, gone); err != nil {
		return fmt.Errorf("remove writer: %w", err)
	}
	if err := os.RemoveAll(gone); err != nil {
		return fmt.Errorf("remove writer: %w", err)
	}
	return nil
}
