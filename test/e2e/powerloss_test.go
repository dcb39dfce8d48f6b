package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// powerOff ends `up` and its redis-server at once: neither has a moment to
// put anything in order.
func (s *system) powerOff() {
	s.Helper()
	pid := s.child()
	for _, victim := range []int{s.proc.cmd.Process.Pid, pid} {
		if err := syscall.Kill(victim, syscall.SIGKILL); err != nil {
			s.Fatalf("kill %d: %v", victim, err)
		}
	}
	<-s.proc.ended
	s.eventually("the end of redis-server", 10*time.Second, func() error {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if _, after, _ := bytes.Cut(stat, []byte(") ")); err == nil && len(after) > 0 && after[0] != 'Z' {
			return fmt.Errorf("process %d: %s", pid, after[:1])
		}
		return nil
	})
}

// copied is a copy of a part of the system's data as the disk has it now, also
// while the server that owns it runs.
func (s *system) copied(part ...string) string {
	s.Helper()
	from, to := filepath.Join(append([]string{s.dir}, part...)...), filepath.Join(s.TempDir(), "copy")
	s.copyTree(to, from)
	return to
}

// restore puts such a copy in the place of the data. Nothing may run on it.
func (s *system) restore(kept string, part ...string) {
	s.Helper()
	to := filepath.Join(append([]string{s.dir}, part...)...)
	if err := os.RemoveAll(to); err != nil {
		s.Fatal(err)
	}
	s.copyTree(to, kept)
}

func (s *system) copyTree(to, from string) {
	s.Helper()
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path != from {
			return nil // a running server renamed it
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		at := filepath.Join(to, rel)
		switch {
		case d.IsDir():
			return os.MkdirAll(at, 0o700)
		case !d.Type().IsRegular():
			return nil // a socket
		}
		content, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return os.WriteFile(at, content, 0o600)
	})
	if err != nil {
		s.Fatalf("copy of %s: %v", from, err)
	}
}

// carried waits until the ledger has n entries of a kind.
func (s *system) carried(org, kind string, n int) {
	s.Helper()
	s.eventually(fmt.Sprintf("%d %s on the ledger", n, kind), 20*time.Second, func() error {
		got := 0
		for _, e := range s.entries(org) {
			if e.Kind == kind {
				got++
			}
		}
		if got < n {
			return fmt.Errorf("%d", got)
		}
		return nil
	})
}
