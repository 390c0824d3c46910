package uplink

import "golang.org/x/sys/unix"

// dup is dup2, which arm64 lacks.
func dup(from, to int) error { return unix.Dup3(from, to, 0) }
