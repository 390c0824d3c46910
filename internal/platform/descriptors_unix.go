//go:build unix

package platform

import "golang.org/x/sys/unix"

// Descriptors is how many files and connections this process may have open, 0 when
// that is not known.
func Descriptors() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil || limit.Cur > 1<<30 {
		return 0
	}
	return int(limit.Cur)
}
