package platform

import (
	"errors"

	"golang.org/x/sys/windows"
)

// RenamesOpenFolders says that a folder can be renamed while a file in it is
// open, and that an open or mapped file can be deleted.
const RenamesOpenFolders = false

// IsInUse reports whether a file could not be deleted or renamed because somebody
// has it open; it goes later.
func IsInUse(err error) bool {
	return errors.Is(err, windows.ERROR_SHARING_VIOLATION) || errors.Is(err, windows.ERROR_USER_MAPPED_FILE) ||
		errors.Is(err, windows.ERROR_ACCESS_DENIED)
}
