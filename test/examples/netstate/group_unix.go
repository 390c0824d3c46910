//go:build unix

package main

import "syscall"

// ownGroup keeps Ctrl-C from a child: this program stops things in order.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
