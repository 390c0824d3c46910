package spool

import (
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kymogram/kymogram/internal/model"
)

// The index of writers by run and by job: an Init asks for those of its own, and
// looks at no other of the thousands that may wait here. A writer is named before
// its folder is there, and forgotten after it is gone: a name without a folder
// costs a look, a folder without a name would be overlooked.
const (
	jobsFolder = "jobs"
	// whole says that the writers of programs before the index are in it.
	whole = "whole"
	// maxNames of ended writers may wait in one folder before the oldest are taken out.
	maxNames = 1024
)

// JobFolder names the folder of jobs/ that lists the writers of a run or job.
func JobFolder(workspace, project, name string) string {
	return fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(workspace+"\x00"+project+"\x00"+name)))
}

// listName sorts by time, and ends in the writer's id.
func listName(r *model.OpenRequest) string { return fmt.Sprintf("%016x-%s", r.OpenedNs, r.Writer) }

func writerOf(listed string) (model.WriterID, error) {
	_, id, _ := strings.Cut(listed, "-")
	return model.ParseWriterID(id)
}

func (f *Folder) jobsPath() string { return filepath.Join(f.Path, jobsFolder) }

// lists are the folders that name a writer of this open.
func (f *Folder) lists(r *model.OpenRequest) []string {
	var out []string
	for _, name := range []string{r.RunName, r.OrchestrationID} {
		out = append(out, filepath.Join(f.jobsPath(), JobFolder(r.Workspace, r.Project, name)))
	}
	return slices.Compact(out)
}

// List names a writer in the index. It is right to do so again.
func (f *Folder) List(r *model.OpenRequest) error {
	for _, dir := range f.lists(r) {
		if err := touchIn(dir, listName(r)); err != nil {
			return fmt.Errorf("list writer: %w", err)
		}
	}
	return nil
}

// touchIn makes an empty file, and its folder as often as another removes it.
func touchIn(dir, name string) error {
	for {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			// It was there when it was to be made, and gone when MkdirAll looked for it.
			if info, lost := os.Lstat(dir); errors.Is(err, os.ErrExist) && (lost != nil || info.IsDir()) {
				continue
			}
			return err
		}
		file, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE, 0o600)
		if err == nil {
			return file.Close()
		}
		if !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
}

// unlist forgets a writer; what stays costs only a look.
func (f *Folder) unlist(r *model.OpenRequest) {
	for _, dir := range f.lists(r) {
		_ = os.Remove(filepath.Join(dir, listName(r)))
		_ = os.Remove(dir) // unless it lists others
	}
}

// index lists the writers that were here before there was an index.
func (f *Folder) index() error {
	done := filepath.Join(f.jobsPath(), whole)
	if _, err := os.Stat(done); err == nil {
		return nil
	}
	ids, err := f.Writers()
	if err != nil {
		return err
	}
	for _, id := range ids {
		if open, err := ReadOpen(f.WriterPath(id)); err == nil {
			if err := f.List(&open.Open); err != nil {
				return err
			}
		}
	}
	return touchIn(f.jobsPath(), whole)
}

// listed names the writers of a run or job, newest first.
func (f *Folder) listed(r *model.OpenRequest) (names []string) {
	for _, dir := range f.lists(r) {
		found := namesIn(dir)
		if len(found) > maxNames {
			f.thin(dir, found[maxNames/2:])
		}
		names = append(names, found...)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	slices.Reverse(names)
	return names
}

// namesIn lists a folder of the index, newest first; none where it is absent.
func namesIn(dir string) []string {
	at, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer at.Close()
	names, _ := at.Readdirnames(-1) // what could be read
	slices.Sort(names)
	slices.Reverse(names)
	return names
}

// thin takes the names of writers that are over out of a list: an open names the
// newest [model.MaxEnded] only.
func (f *Folder) thin(dir string, names []string) {
	for _, name := range names {
		path := filepath.Join(dir, name)
		id, err := writerOf(name)
		if err != nil || !isOpened(f.WriterPath(id)) {
			forget(path)
			continue
		}
		if alive, err := held(filepath.Join(f.WriterPath(id), "lock")); err == nil && !alive {
			_ = os.Remove(path) // another may have
		}
	}
}

// forget removes the name of a writer without a folder, unless it may still be made.
func forget(path string) {
	if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) >= time.Hour {
		_ = os.Remove(path) // another may have
	}
}

// sweepJobs forgets writers that are gone: an older program removed them, or one
// that was killed.
func (f *Folder) sweepJobs() {
	dirs, err := os.ReadDir(f.jobsPath())
	if err != nil {
		return // there is no index yet
	}
	for _, d := range dirs {
		dir := filepath.Join(f.jobsPath(), d.Name())
		if !d.IsDir() {
			continue
		}
		for _, name := range namesIn(dir) {
			if id, err := writerOf(name); err != nil || !isOpened(f.WriterPath(id)) {
				forget(filepath.Join(dir, name))
			}
		}
		_ = os.Remove(dir) // unless it lists others
	}
}
