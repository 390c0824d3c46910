//go:build !linux

package platform

import (
	"syscall"
	"time"
)

// GiveUpAfter is a Control of a [net.Dialer] whose connections end when what they sent is not
// confirmed for so long. Here the system decides, after minutes.
func GiveUpAfter(time.Duration) func(network, address string, c syscall.RawConn) error { return nil }
