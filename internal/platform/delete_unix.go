//go:build unix

package platform

// RenamesOpenFolders says that a folder can be renamed while a file in it is
// open, and that an open or mapped file can be deleted.
const RenamesOpenFolders = true

// IsInUse reports whether a file could not be deleted or renamed because somebody
// has it open; it goes later.
func IsInUse(error) bool { return false }
