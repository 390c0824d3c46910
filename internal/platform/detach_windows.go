package platform

import (
	"syscall"

	"golang.org/x/sys/windows"
)

// RootFolder is where a detached process stands, so that it keeps no other from
// being unmounted.
const RootFolder = `C:\`

// Detached is how a process is started that outlives its parent and its terminal.
func Detached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{HideWindow: true, CreationFlags: windows.DETACHED_PROCESS | windows.CREATE_NEW_PROCESS_GROUP}
}

// KeepDescriptors keeps what this process inherited from reaching the processes it
// starts. Go starts processes on Windows with a list of the handles they get.
func KeepDescriptors() error { return nil }

// PrivateFiles makes every file that this process makes its user's alone; on
// Windows the profile folder they lie in is already.
func PrivateFiles() {}
