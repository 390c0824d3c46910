//go:build !linux

package platform

import "os"

// Reserve gives a file zeroed space of its own, so that a later store through a
// map cannot meet a full disk.
func Reserve(f *os.File, size int64) error { return writeZeros(f, size) }

// Fill is nothing here: Reserve wrote zeros.
func Fill(*os.File, int64) error { return nil }

// Bring is nothing here.
func Bring([]byte) {}

// SyncData makes the content of a file durable.
func SyncData(f *os.File) error { return f.Sync() }
