package still

import (
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"runtime"
	"time"

	"modernc.org/sqlite/vfs"
)

// ErrDamaged is a page that a check refused.
var ErrDamaged = errors.New("a page is not as it was written")

var errPage = errors.New("damaged page")

// Look is how a database is looked at.
type Look struct {
	// Check judges a page of the file as it is read; nil takes every page.
	Check func(page []byte, number uint32) bool
	// VFS is the file system of SQLite for a database that another process has open.
	VFS string
}

// tries is how often a database is read that others open and close meanwhile.
const tries = 3

// Read opens a database that must exist. What use did is to be forgotten when it is
// called again: then the database was changed under it.
func (l Look) Read(path string, use func(*sql.DB) error) error {
	for range tries {
		f, err := Open(path)
		if err != nil {
			return err
		}
		if Busy(path) {
			_ = f.Close() // only read
			break
		}
		f.check = l.Check
		err = f.use(use)
		if changed := f.Changed(); errors.Join(f.Close()) == nil && !changed {
			return err
		}
	}
	return open((&url.URL{Path: path}).EscapedPath(), "mode=ro&vfs="+l.VFS, use)
}

func open(path, options string, use func(*sql.DB) error) (err error) {
	db, err := sql.Open("sqlite", "file:"+path+"?"+options+"&_pragma=trusted_schema(0)&_pragma=busy_timeout(5000)&_pragma=temp_store(2)")
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	db.SetMaxOpenConns(8)
	defer func() { err = errors.Join(err, db.Close()) }()
	return use(db)
}

// use gives SQLite the file.
func (f *File) use(use func(*sql.DB) error) error {
	name, files, err := vfs.New(only{f})
	if err != nil {
		return fmt.Errorf("register a file system: %w", err)
	}
	defer files.Close()
	err = open(only{}.name(), "immutable=1&vfs="+name, use)
	if err != nil && f.bad > 0 {
		return fmt.Errorf("%w: page %d: %w", ErrDamaged, f.bad, err)
	}
	return err
}

// SystemVFS is SQLite's name of the operating system's files.
func SystemVFS() string {
	if runtime.GOOS == "windows" {
		return "win32"
	}
	return "unix"
}

// Target names a file that SQLite shall write, by another file system than it reads with.
func Target(path, vfs string) string {
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?vfs=" + vfs
}

// only is a file system with one database.
type only struct{ file *File }

func (only) name() string { return "database" }

func (o only) Open(name string) (fs.File, error) {
	if name != o.name() {
		return nil, fs.ErrNotExist
	}
	return &handle{SectionReader: io.NewSectionReader(o.file, 0, o.file.size), file: o.file}, nil
}

// handle is the database, opened once.
type handle struct {
	*io.SectionReader
	file *File
}

func (h *handle) Stat() (fs.FileInfo, error) { return h, nil }
func (h *handle) Close() error               { return nil }
func (h *handle) Name() string               { return only{}.name() }
func (h *handle) Mode() fs.FileMode          { return 0o400 }
func (h *handle) ModTime() time.Time         { return h.file.stamps[0].ModTime() }
func (h *handle) IsDir() bool                { return false }
func (h *handle) Sys() any                   { return nil }
