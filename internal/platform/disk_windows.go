package platform

import (
	"errors"
	"fmt"

	"golang.org/x/sys/windows"
)

// FreeBytes is the room that this user has on the disk of a path.
func FreeBytes(path string) (int64, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return 0, fmt.Errorf("inspect the file system of %s: %w", path, err)
	}
	var free, total, all uint64
	if err := windows.GetDiskFreeSpaceEx(name, &free, &total, &all); err != nil {
		return 0, fmt.Errorf("inspect the file system of %s: %w", path, err)
	}
	return int64(free), nil
}

// IsDiskFull reports whether an error means that there is no room: the disk or
// the user's quota.
func IsDiskFull(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL) ||
		errors.Is(err, windows.ERROR_DISK_QUOTA_EXCEEDED)
}

// IsReadOnly reports whether an error means that this user may not write there.
func IsReadOnly(err error) bool {
	return errors.Is(err, windows.ERROR_ACCESS_DENIED) || errors.Is(err, windows.ERROR_WRITE_PROTECT)
}

// SyncFolder makes the names in a folder durable; NTFS keeps a journal of them and
// has no call for it.
func SyncFolder(string) error { return nil }
