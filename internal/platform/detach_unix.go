//go:build unix

package platform

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// RootFolder is where a detached process stands, so that it keeps no other from
// being unmounted.
const RootFolder = "/"

// Detached is how a process is started that outlives its parent and its terminal.
func Detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// KeepDescriptors keeps what this process inherited from reaching the processes it
// starts: a pipe held by them would keep the pipe's reader waiting.
func KeepDescriptors() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if errors.Is(err, os.ErrNotExist) {
		return nil // not Linux
	}
	if err != nil {
		return fmt.Errorf("list descriptors: %w", err)
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

// PrivateFiles makes every file that this process makes its user's alone.
func PrivateFiles() { unix.Umask(0o077) }
