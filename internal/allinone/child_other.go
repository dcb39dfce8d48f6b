//go:build !linux

package allinone

import "syscall"

// childAttr: elsewhere nothing ends a child with its parent; the next start
// does.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// runsIn cannot be told here; the socket tells.
func runsIn(int, string) bool { return false }
