package bench

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Postgres does not run as root, so for root it runs as one of these.
var servants = [...]string{"postgres", "nobody"} //nolint:gochecknoglobals // a constant

func servant() (uid, gid int, ok bool) {
	if os.Geteuid() != 0 {
		return 0, 0, false
	}
	for _, name := range servants {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		if err1 == nil && err2 == nil && uid > 0 {
			return uid, gid, true
		}
	}
	return 0, 0, false
}

func unprivileged() *syscall.SysProcAttr {
	uid, gid, ok := servant()
	if !ok {
		return nil
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}} //nolint:gosec // ids are small
}

// giveAway makes a folder and what is in it the servant's, and lets him walk
// to it.
func giveAway(dir string) error {
	uid, gid, ok := servant()
	if !ok {
		return nil
	}
	if err := os.Chmod(filepath.Dir(dir), 0o711); err != nil {
		return err
	}
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return err
	}
	for _, name := range append(names, dir) {
		if err := os.Chown(name, uid, gid); err != nil {
			return err
		}
	}
	return nil
}

// clockTick is the unit of times in /proc, the same on every Linux that Go
// runs on.
const clockTick = 10 * time.Millisecond

// childrenCPU is what a process and its ended children have used; 0 where the
// machine does not say.
func childrenCPU(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name, in parentheses, may hold anything.
	words := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(words) < 15 {
		return 0
	}
	var sum time.Duration
	for _, w := range words[11:15] { // utime, stime, cutime, cstime
		n, err := strconv.ParseInt(w, 10, 64)
		if err != nil {
			return 0
		}
		sum += time.Duration(n) * clockTick
	}
	return sum
}
