package platform

import "os"

// NoFollow is the flag of os.OpenFile that refuses a symbolic link; making one
// needs a privilege on Windows, so there is none.
const NoFollow = 0

// IsMine is always true: whose a file is follows from the folder's access list.
func IsMine(os.FileInfo) bool { return true }

// IsPrivate is always true: the rights are in access lists, which folders hand down.
func IsPrivate(os.FileInfo) bool { return true }

// Owner is the user who owns a file; known is false where files have no such
// number.
func Owner(os.FileInfo) (user int, known bool) { return 0, false }
