//go:build unix

package platform

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// NoFollow is the flag of os.OpenFile that refuses a symbolic link.
const NoFollow = unix.O_NOFOLLOW

// Owner is the user who owns a file; known is false where files have no such
// number.
func Owner(info os.FileInfo) (user int, known bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}
