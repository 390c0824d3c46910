//go:build !unix

package main

import "syscall"

func ownGroup() *syscall.SysProcAttr { return nil }
