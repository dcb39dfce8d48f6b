package testkit

import "syscall"

// childAttr: a server ends with the test process, however that ends: a time-out
// or a panic runs no cleanup.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
