package platform

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// TryLock takes the lock of an open file and reports whether nobody else held it.
// The lock ends when the file is closed or its process is over.
func TryLock(f *os.File) (bool, error) {
	return lockFile(f, windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY)
}

// TryShare is TryLock for a lock that several may hold.
func TryShare(f *os.File) (bool, error) { return lockFile(f, windows.LOCKFILE_FAIL_IMMEDIATELY) }

// Lock is TryLock that waits.
func Lock(f *os.File) error {
	_, err := lockFile(f, windows.LOCKFILE_EXCLUSIVE_LOCK)
	return err
}

// lockFile locks one byte far past any content, because Windows keeps others
// from reading locked bytes. Python locks the same one.
func lockFile(f *os.File, flags uint32) (bool, error) {
	at := &windows.Overlapped{OffsetHigh: 0x7fffffff}
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, at)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return false, nil
	}
	return err == nil, err
}

// Guarded says that another process holds a lock on one byte of a file, which is locked
// for a moment to find out.
func Guarded(f *os.File, at int64) bool {
	place := &windows.Overlapped{Offset: uint32(at), OffsetHigh: uint32(at >> 32)}
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, place)
	if err == nil {
		_ = windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, place) // the close does it, too
	}
	return err != nil
}
