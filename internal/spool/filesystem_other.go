//go:build !linux

package spool

import "github.com/kymogram/kymogram/internal/platform"

func inspect(path string) (Filesystem, error) {
	free, err := platform.FreeBytes(path)
	return Filesystem{Name: "local", Kind: FSLocal, FreeBytes: free}, err
}
