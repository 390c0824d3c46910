//go:build unix

package platform

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// TryLock takes the lock of an open file and reports whether nobody else held it.
// The lock ends when the file is closed or its process is over.
func TryLock(f *os.File) (bool, error) { return flock(f, unix.LOCK_EX|unix.LOCK_NB) }

// TryShare is TryLock for a lock that several may hold.
func TryShare(f *os.File) (bool, error) { return flock(f, unix.LOCK_SH|unix.LOCK_NB) }

// Lock is TryLock that waits.
func Lock(f *os.File) error {
	_, err := flock(f, unix.LOCK_EX)
	return err
}

func flock(f *os.File, how int) (bool, error) {
	err := unix.Flock(int(f.Fd()), how)
	for errors.Is(err, unix.EINTR) {
		err = unix.Flock(int(f.Fd()), how)
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// Guarded says that another process holds a lock of fcntl on one byte of a file. Nothing
// is locked for it.
func Guarded(f *os.File, at int64) bool {
	lock := unix.Flock_t{Type: unix.F_WRLCK, Start: at, Len: 1}
	err := unix.FcntlFlock(f.Fd(), unix.F_GETLK, &lock)
	return err == nil && lock.Type != unix.F_UNLCK
}
