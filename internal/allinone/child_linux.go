package allinone

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// childAttr: the child gets SIGTERM when this process ends, however it does.
// Its own process group keeps a terminal's Ctrl-C away from it: it is shut
// down last.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
}

// runsIn says whether a process is a server that was started for dir. The
// server changes its title, so its working directory is what tells.
func runsIn(pid int, dir string) bool {
	proc := fmt.Sprintf("/proc/%d/", pid)
	cwd, err := os.Readlink(proc + "cwd")
	if err != nil {
		return false
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	name, err := os.ReadFile(proc + "comm")
	return err == nil && cwd == dir && (bytes.HasPrefix(name, []byte("redis-")) || bytes.HasPrefix(name, []byte("valkey-")))
}
