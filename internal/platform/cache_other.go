//go:build !linux

package platform

import "os"

// DropCache does nothing: only Linux can be asked.
func DropCache(*os.File) {}
