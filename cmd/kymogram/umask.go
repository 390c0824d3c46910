package main

import "golang.org/x/sys/unix"

// privateFiles makes every file of this process its user's alone: the data
// folder holds keys' hashes and what people logged.
func privateFiles() { unix.Umask(0o077) }
