package wal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/kymogram/kymogram/internal/platform"
)

// FS is what the log and the engines need of a file system. Names are paths.
// A name is durable after SyncDir of its folder, content after File.Sync.
type FS interface { //nolint:interfacebloat // one seam to the operating system, which tests replace as a whole
	// Open opens a file for reading and writing; create makes it when missing.
	Open(name string, create bool) (File, error)
	Remove(name string) error
	Rename(from, to string) error
	List(dir string) ([]string, error) // base names, sorted
	MkdirAll(dir string) error
	SyncDir(dir string) error
	// Lock takes an exclusive lock on a file, made when missing; it fails at once
	// when another process holds it.
	Lock(name string) (io.Closer, error)
}

// File is an open file.
type File interface { //nolint:interfacebloat // one seam to the operating system, which tests replace as a whole
	io.ReaderAt
	io.WriterAt
	io.Closer
	Sync() error
	Truncate(size int64) error
	Size() (int64, error)
}

// ErrLocked says that another process holds the lock.
var ErrLocked = errors.New("locked by another process")

// OS is the operating system's file system. Files are private to the user.
type OS struct{}

type osFile struct{ *os.File }

// Sync makes content and size durable: nobody here needs the times of a file.
func (f osFile) Sync() error { return platform.SyncData(f.File) }

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Open implements [FS].
func (OS) Open(name string, create bool) (File, error) {
	flag := os.O_RDWR
	if create {
		flag |= os.O_CREATE
	}
	f, err := os.OpenFile(name, flag, 0o600)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// Looking is [OS] for those who only read: also files that may not be written.
type Looking struct{ OS }

// Open implements [FS]; it makes nothing.
func (Looking) Open(name string, _ bool) (File, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// Lock implements [FS] where the file is there.
func (Looking) Lock(name string) (io.Closer, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	return locked(f)
}

// Remove implements [FS].
func (OS) Remove(name string) error { return os.Remove(name) }

// Rename implements [FS].
func (OS) Rename(from, to string) error { return os.Rename(from, to) }

// MkdirAll implements [FS].
func (OS) MkdirAll(dir string) error { return os.MkdirAll(dir, 0o700) }

// List implements [FS].
func (OS) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		if !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

// SyncDir implements [FS].
func (OS) SyncDir(dir string) error {
	return platform.SyncFolder(dir)
}

// Lock implements [FS].
func (OS) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(filepath.Clean(name), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return locked(f)
}

func locked(f *os.File) (io.Closer, error) {
	free, err := platform.TryLock(f)
	if err == nil && free {
		return f, nil
	}
	_ = f.Close()
	if err == nil {
		err = ErrLocked
	}
	return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
}

// IsDiskFull reports whether an error means that there is no room: the disk or
// the user's quota.
func IsDiskFull(err error) bool {
	return platform.IsDiskFull(err)
}
