//go:build unix

package platform

import (
	"os"
	"syscall"
)

// Raise sends this process a signal, which ends it where nothing handles that.
func Raise(sig os.Signal) {
	if s, ok := sig.(syscall.Signal); ok {
		_ = syscall.Kill(os.Getpid(), s) // fails for no signal that came
	}
}
