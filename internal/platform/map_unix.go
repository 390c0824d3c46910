//go:build unix

package platform

import (
	"os"

	"golang.org/x/sys/unix"
)

// Map maps the first size bytes of a file, shared and writable.
func Map(f *os.File, size int) ([]byte, error) {
	return unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

// Unmap ends a map; its bytes must not be touched again.
func Unmap(mem []byte) error { return unix.Munmap(mem) }
