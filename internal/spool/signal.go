package spool

import (
	"os"
	"path/filepath"
)

// SignalFile is in a writer's folder, empty until its process gets a SIGTERM that it
// does not handle.
const SignalFile = "SIGTERM"

// EndedBy says which signal ended the process of a writer without a close, and when in
// Unix ns; "" where nobody wrote that down.
func EndedBy(dir string) (signal string, timeNs int64) {
	info, err := os.Lstat(filepath.Join(dir, SignalFile))
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return "", 0
	}
	return SignalFile, info.ModTime().UnixNano()
}
