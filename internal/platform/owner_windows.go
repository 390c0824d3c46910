package platform

import "os"

// NoFollow is the flag of os.OpenFile that refuses a symbolic link; making one
// needs a privilege on Windows, so there is none.
const NoFollow = 0

// Owner is the user who owns a file; known is false where files have no such
// number.
func Owner(os.FileInfo) (user int, known bool) { return 0, false }
