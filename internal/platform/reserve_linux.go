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

// Fill writes zeros over a reserved file: the page cache then holds it in large
// folios, whose first write through a map costs a twentieth of that of a page
// whose space is only promised. It is one system call, for after each a goroutine
// waits its turn while all processors are busy.
func Fill(f *os.File, size int64) error {
	pieces := make([][]byte, 0, size/int64(len(zeros))+1)
	for done := int64(0); done < size; {
		pieces = pieces[:0]
		for rest := size - done; rest > 0; rest -= int64(len(zeros)) {
			pieces = append(pieces, zeros[:min(int64(len(zeros)), rest)])
		}
		n, err := unix.Pwritev(int(f.Fd()), pieces, done)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		done += int64(max(n, 0))
	}
	return nil
}

// Bring has the pages of a map ready to be written to. It may fail (Linux before
// 5.14); then each comes with its first write.
func Bring(mem []byte) { _ = unix.Madvise(mem, unix.MADV_POPULATE_WRITE) }

// SyncData makes the content of a file durable, with its size, but not its times, which are
// a third of the work of a small sync.
func SyncData(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
