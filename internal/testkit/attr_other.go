//go:build !linux

package testkit

import "syscall"

// childAttr: elsewhere nothing but cleanup ends a child with its parent.
func childAttr() *syscall.SysProcAttr { return nil }
