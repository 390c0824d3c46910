//go:build unix && !linux

package spool

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

func inspect(path string) (Filesystem, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return Filesystem{}, fmt.Errorf("inspect the file system of %s: %w", path, err)
	}
	return Filesystem{Name: "local", Kind: FSLocal, FreeBytes: int64(st.Bavail) * int64(st.Bsize)}, nil
}

func allocate(f *os.File, size int64) error { return writeZeros(f, size) }

func syncData(f *os.File) error { return f.Sync() }
