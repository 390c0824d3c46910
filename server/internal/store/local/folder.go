package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/server/internal/store/local/segment"
)

// Folder is the files of a data folder held open, as they were at one moment: for
// every run a state that was acknowledged or about to be. Whoever writes to the
// folder meanwhile is not disturbed and may be another process.
type Folder struct {
	dir string
	// marks are the tip and the list once more, see [Config]; "" for none
	marks string
	fs    wal.FS
	log   []wal.NamedFile
	tip   uint64 // the log was synced at least up to this record
	segs  []folderFile
	// lists name the segments that must be there.
	lists *segment.Lists
	other []folderFile // VERSION and what was set aside
}

type folderFile struct {
	name string // below the folder
	size int64
	file wal.File
}

// openTries bounds how often merges may get in between: one takes longer than
// opening files does.
const openTries = 100

// OpenFolder opens the files of a data folder for reading; marks as in [Config].
func OpenFolder(ctx context.Context, fs wal.FS, dir, marks string) (*Folder, error) {
	var err error
	for range openTries {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		f := &Folder{dir: dir, marks: marks, fs: fs}
		if err = f.open(); err == nil {
			return f, nil
		}
		f.Close()
		if !errors.Is(err, iofs.ErrNotExist) && !errors.Is(err, errChanged) {
			return nil, err
		}
		if _, verr := fs.Open(filepath.Join(dir, "VERSION"), false); verr != nil {
			return nil, model.Errorf(model.CodeNotFound, "%s is no data folder: it has no VERSION", dir).WithHint("name the folder that was given to `kymogram serve --data`")
		}
	}
	return nil, fmt.Errorf("the data folder changes all the time: %w", err)
}

var errChanged = errors.New("files came or went while they were opened")

// open takes the log first: what leaves it later is in a segment by then. A list
// of segments that is the same before and after has what each of them replaced
// or was replaced by.
func (f *Folder) open() error {
	f.tip = wal.ReadTip(f.fs, places(filepath.Join(f.dir, "wal"), f.marks)...) // first: the log goes on
	names, err := f.list("wal")
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, ok := wal.FirstLSN(name); !ok {
			continue
		}
		file, err := f.take(filepath.Join("wal", name))
		if err != nil {
			return err
		}
		f.log = append(f.log, wal.NamedFile{Name: name, Size: file.size, ReaderAt: file.file})
	}
	before, err := f.segmentNames()
	if err != nil {
		return err
	}
	for _, name := range before {
		file, err := f.take(filepath.Join("segments", name))
		if err != nil {
			return err
		}
		f.segs = append(f.segs, file)
	}
	f.lists = segment.Listed(f.fs, places(filepath.Join(f.dir, "segments"), f.marks)...)
	if after, err := f.segmentNames(); err != nil || !slices.Equal(before, after) {
		return errors.Join(errChanged, err)
	}
	return f.openOthers()
}

// Lists are what names the segments that must be there.
func (f *Folder) Lists() *segment.Lists { return f.lists }

func (f *Folder) openOthers() error {
	for _, sub := range []string{"", filepath.Join("wal", "quarantine")} {
		names, err := f.list(sub)
		if err != nil {
			return err
		}
		for _, name := range names {
			if name == "LOCK" || strings.HasSuffix(name, ".tmp") {
				continue
			}
			file, err := f.take(filepath.Join(sub, name))
			if err != nil {
				return err
			}
			f.other = append(f.other, file)
		}
	}
	if !slices.ContainsFunc(f.other, func(o folderFile) bool { return o.name == "VERSION" }) {
		return fmt.Errorf("VERSION: %w", iofs.ErrNotExist)
	}
	return nil
}

// list is empty for a folder that is made with its first file.
func (f *Folder) list(sub string) ([]string, error) {
	names, err := f.fs.List(filepath.Join(f.dir, sub))
	if sub != "" && errors.Is(err, iofs.ErrNotExist) {
		return nil, nil
	}
	return names, err
}

func (f *Folder) segmentNames() ([]string, error) {
	names, err := f.list("segments")
	return slices.DeleteFunc(names, func(name string) bool { _, ok := segment.ParseName(name); return !ok }), err
}

func (f *Folder) take(name string) (folderFile, error) {
	file, err := f.fs.Open(filepath.Join(f.dir, name), false)
	if err != nil {
		return folderFile{}, err
	}
	size, err := file.Size()
	if err != nil {
		return folderFile{}, errors.Join(err, file.Close())
	}
	return folderFile{name, size, file}, nil
}

// Close closes the files.
func (f *Folder) Close() {
	for _, s := range append(slices.Clone(f.segs), f.other...) {
		_ = s.file.Close() // only read
	}
	for _, l := range f.log {
		_ = l.ReaderAt.(io.Closer).Close()
	}
}

// Bytes is the size of all files.
func (f *Folder) Bytes() (n int64) {
	for _, s := range append(slices.Clone(f.segs), f.other...) {
		n += s.size
	}
	for _, l := range f.log {
		n += l.Size
	}
	return n
}

// LogBytes is the size of the log's files.
func (f *Folder) LogBytes() (n int64) {
	for _, l := range f.log {
		n += l.Size
	}
	return n
}

// Put takes a file of a copy.
type Put func(name string, size int64, r io.Reader) error

// CopyTo gives every file of a folder that opens as this one does. LSNs above
// floor are new in the copy: what else was saved (the catalog) may know some that
// the log was given after it was copied.
func (f *Folder) CopyTo(ctx context.Context, floor uint64, put Put) error {
	for _, s := range append(slices.Clone(f.segs), f.other...) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := put(s.name, s.size, io.NewSectionReader(s.file, 0, s.size)); err != nil {
			return err
		}
	}
	newest := uint64(0) // the first LSN of the last file
	for i, l := range f.log {
		if err := ctx.Err(); err != nil {
			return err
		}
		size := l.Size
		newest, _ = wal.FirstLSN(l.Name)
		if i == len(f.log)-1 { // a record may be in the middle of being written
			data, err := io.ReadAll(io.NewSectionReader(l, 0, l.Size))
			if err != nil {
				return fmt.Errorf("read %s: %w", l.Name, err)
			}
			var last uint64
			if size, last = wal.Whole(data); last == 0 {
				last = newest - 1
			}
			floor = max(floor, last)
		}
		if err := put(filepath.Join("wal", l.Name), size, io.NewSectionReader(l, 0, size)); err != nil {
			return err
		}
	}
	if newest > floor {
		return nil
	}
	return put(filepath.Join("wal", wal.FileName(floor+1)), 0, bytes.NewReader(nil))
}
