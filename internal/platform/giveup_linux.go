package platform

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// GiveUpAfter is a Control of a [net.Dialer] whose connections end when what they sent is not
// confirmed for so long. Elsewhere the system decides, after minutes.
func GiveUpAfter(silence time.Duration) func(network, address string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(silence.Milliseconds())) // a socket that is none of TCP does without
		})
	}
}
