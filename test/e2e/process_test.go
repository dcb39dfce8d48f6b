package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// process is one child of a test, with its log.
type process struct {
	testing.TB
	name, log string
	cmd       *exec.Cmd
	ended     chan struct{}
}

// spawn starts a child. What it says is appended to its log in dir, and shown
// if the test fails.
func spawn(t testing.TB, dir, name string, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{TB: t, name: name, log: filepath.Join(dir, name+".log"), cmd: cmd, ended: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	go func() { _ = cmd.Wait(); close(p.ended) }()
	return p
}

// text is the end of its log.
func (p *process) text() string {
	text, _ := os.ReadFile(p.log)
	return string(text[max(0, len(text)-4000):])
}

func (p *process) gone() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// send sends a signal.
func (p *process) send(sig syscall.Signal) {
	p.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.Errorf("%v to %s: %v", sig, p.name, err)
	}
}

// end sends a signal and waits for the end.
func (p *process) end(sig syscall.Signal) {
	p.Helper()
	p.send(sig)
	select {
	case <-p.ended:
	case <-time.After(30 * time.Second):
		_ = p.cmd.Process.Kill()
		p.Errorf("%s did not end within 30 s of %v", p.name, sig)
	}
}

// eventually asks again until there is no error.
func eventually(t testing.TB, what string, within time.Duration, ask func() error) {
	t.Helper()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		err := ask()
		if err == nil {
			return
		}
		select {
		case <-deadline.C:
			t.Fatalf("%s: after %s still: %v", what, within, err)
		case <-again.C:
		}
	}
}

// freePort is a port that nothing listens at, and that no outgoing connection
// is given: it stays free while what listened there is restarted.
func freePort(t testing.TB) string {
	t.Helper()
	for range 100 {
		port := strconv.Itoa(15000 + rand.IntN(15000))
		ln, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err == nil {
			_ = ln.Close()
			return port
		}
	}
	t.Fatal("no free port")
	return ""
}

// within is what a channel says in time.
func within[T any](t testing.TB, what string, limit time.Duration, c <-chan T) T {
	t.Helper()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case v := <-c:
		return v
	case <-timer.C:
		t.Fatalf("%s: not within %s", what, limit)
		panic("unreachable")
	}
}

// equal compares what people can read.
func equal(t testing.TB, what string, got, want any) {
	t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		t.Errorf("%s: %s, want %s", what, g, w)
	}
}
