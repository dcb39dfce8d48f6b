package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// replica starts a redis-server that follows the installation's through a proxy.
func (p *apart) replica() (proc *process, client *redis.Client, line *proxy) {
	p.Helper()
	line, port := newProxy(p.TB, "tcp", "127.0.0.1:"+p.redisPort), freePort(p.TB)
	_, master, err := net.SplitHostPort(line.addr)
	if err != nil {
		p.Fatal(err)
	}
	dir := filepath.Join(p.dir, "replica")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		p.Fatal(err)
	}
	secret := p.secret("redis-admin.password")
	args := append(append([]string{}, p.commands[redis1]...), "--port", port, "--dir", dir,
		"--replicaof", "127.0.0.1 "+master, "--masteruser", "admin", "--masterauth", secret)
	cmd := exec.Command(redis1, args...)
	cmd.Dir = project
	proc = spawn(p.TB, p.dir, "replica", cmd)
	p.Cleanup(func() {
		if p.parts[redis1] != proc {
			proc.end(syscall.SIGTERM)
		}
	})
	client = redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port, Username: "admin", Password: secret, MaxRetries: -1})
	p.Cleanup(func() { _ = client.Close() })
	return proc, client, line
}

// TestReplicaPromoted: Redis's primary dies, and a replica takes its place
// that had not got the newest writes.
func TestReplicaPromoted(t *testing.T) {
	t.Parallel()
	p := startApart(t)
	proc, replica, line := p.replica()
	h := p.history()
	h.work("before")
	primary := p.redis()
	want := counters(t, primary, h.Org, h.Pool)
	p.eventually("the replica has it", 20*time.Second, func() error {
		if keys := replica.Keys(t.Context(), "bp:*").Val(); len(keys) != 1 {
			return fmt.Errorf("%d limits", len(keys))
		}
		if got := counters(t, replica, h.Org, h.Pool); got != want {
			return fmt.Errorf("%s, want %s", got, want)
		}
		return nil
	})
	line.sever()
	h.work("lost")

	p.kill(redis1)
	for _, args := range [][]any{{"REPLICAOF", "NO", "ONE"}, {"CONFIG", "SET", "port", p.redisPort}} {
		if err := replica.Do(t.Context(), args...).Err(); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
	}
	p.parts[redis1] = proc
	h.repaired(oneWork())
	h.again()
	p.ready()
}

// TestLostAndRepeated: an older copy of Redis is put back, and agents repeat
// what was lost before anybody has noticed, because no scribe runs. What was
// done twice is corrected; nothing is held or spent twice.
func TestLostAndRepeated(t *testing.T) {
	t.Parallel()
	p := startApart(t)
	h := p.history()
	h.work("before")
	kept := p.copied(redisData)
	h.work("lost")
	p.kill("scribe")
	p.kill(redis1)
	p.restore(kept, redisData)
	p.start(redis1)
	for _, was := range h.acked { // a new reserve has a deadline of its own
		h.honest(told(was.out), was.verb, was.key, was.body)
	}
	before := h.held
	equal(t, "figures of Redis alone", h.figures(), fmt.Sprintf("held %d spent %d withheld 0", before, h.spent))
	p.start("scribe")
	if e := h.rebuilt(h.Org); e.Corrected != 10 {
		t.Errorf("the event: %+v, want 10 corrected", e)
	}
	h.repaired(oneWork())
	equal(t, "figures", h.figures(), fmt.Sprintf("held %d spent %d withheld 0", before, h.spent))
	corrected := 0
	for _, e := range h.entries(h.Org) {
		if e.Kind == "corrected" {
			corrected++
		}
	}
	equal(t, "corrections", corrected, 10)
	p.must("rebuild", "--org", h.Org)
	h.lawful(h.Org)
	equal(t, "figures after another rebuild", h.figures(), fmt.Sprintf("held %d spent %d withheld 0", before, h.spent))
}
