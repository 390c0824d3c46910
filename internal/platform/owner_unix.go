//go:build unix

package platform

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// NoFollow is the flag of os.OpenFile that refuses a symbolic link.
const NoFollow = unix.O_NOFOLLOW

// IsMine reports whether a file belongs to the user of this process.
func IsMine(info os.FileInfo) bool {
	user, known := Owner(info)
	return !known || user == os.Geteuid()
}

// IsPrivate reports whether only its owner has rights to a file or folder.
func IsPrivate(info os.FileInfo) bool { return info.Mode().Perm()&0o077 == 0 }

// Owner is the user who owns a file; known is false where files have no such
// number.
func Owner(info os.FileInfo) (user int, known bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}
