package platform

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Reserve gives a file zeroed space of its own, so that a later store through a
// map cannot meet a full disk.
func Reserve(f *os.File, size int64) error {
	err := unix.Fallocate(int(f.Fd()), 0, 0, size)
	for errors.Is(err, unix.EINTR) {
		err = unix.Fallocate(int(f.Fd()), 0, 0, size)
	}
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return writeZeros(f, size)
	}
	return err
}

// SyncData makes the content of a file durable.
func SyncData(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }
