package platform

import (
	"fmt"
	"os"

	"golang.org/x/sys/windows"
)

// Redirect makes a standard descriptor of this process point to a file.
func Redirect(descriptor int, to *os.File) error {
	which := map[int]uint32{1: windows.STD_OUTPUT_HANDLE, 2: windows.STD_ERROR_HANDLE}[descriptor]
	if which == 0 {
		return fmt.Errorf("descriptor %d is not a standard one", descriptor)
	}
	return windows.SetStdHandle(which, windows.Handle(to.Fd()))
}
