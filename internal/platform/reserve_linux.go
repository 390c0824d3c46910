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
		return writeZeros(f, 0, size)
	}
	return err
}

// Zero writes zeros over a part of a file that is reserved: the page cache then
// holds it in large folios, whose first write through a map costs a twentieth of
// that of a page whose space is only promised.
func Zero(f *os.File, from, to int64) error { return writeZeros(f, from, to) }

// Bring has the pages of a map ready to be written to. It may fail (Linux before
// 5.14); then each comes with its first write.
func Bring(mem []byte) { _ = unix.Madvise(mem, unix.MADV_POPULATE_WRITE) }

// SyncData makes the content of a file durable.
func SyncData(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }
