package platform

import (
	"os"

	"golang.org/x/sys/unix"
)

// DropCache asks the kernel to forget what it keeps of a synced file, so that the
// next read comes from the disk.
func DropCache(file *os.File) { _ = unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED) }
