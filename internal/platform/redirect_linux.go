package platform

import (
	"os"

	"golang.org/x/sys/unix"
)

// Redirect makes a descriptor of this process point to a file.
func Redirect(descriptor int, to *os.File) error { return unix.Dup3(int(to.Fd()), descriptor, 0) }
