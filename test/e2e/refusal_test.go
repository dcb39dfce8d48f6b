package e2e

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tallystick/internal/testkit"
)

// refusal runs a binary that must end by itself, and gives exit code and words.
func refusal(t *testing.T, env []string, path string, args ...string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("%s %v: %v: %s", filepath.Base(path), args, err, out)
	}
	return exit.ExitCode(), string(out)
}

// turnedAway is a start that is refused with exit 1, and what is said then.
type turnedAway struct {
	env   []string
	path  string
	args  []string
	words []string
}

func (r turnedAway) check(t *testing.T) {
	t.Helper()
	code, text := refusal(t, r.env, r.path, r.args...)
	if code != 1 {
		t.Errorf("exit %d", code)
	}
	for _, word := range r.words {
		if !strings.Contains(strings.ReplaceAll(text, `\"`, `"`), word) { // a worker's log is JSON
			t.Errorf("%q is not in: %s", word, text)
		}
	}
}

// TestNoRedis: without a redis-server on PATH, up says what to install where.
func TestNoRedis(t *testing.T) {
	t.Parallel()
	turnedAway{
		[]string{"PATH=" + t.TempDir()},
		built("tallystick"),
		[]string{"up", "--data", t.TempDir(), "--nats", "127.0.0.1:0"},
		[]string{"no redis-server or valkey-server", "Debian", "apt-get install redis-server", "Fedora", "dnf install", "Alpine", "apk add", "macOS", "brew install"},
	}.check(t)
}

// TestEvictingRedis: whoever would use a Redis that evicts keys refuses to start.
func TestEvictingRedis(t *testing.T) {
	t.Parallel()
	server := testkit.OwnRedis(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	words := []string{`maxmemory-policy "allkeys-lru"`, "evict", "CONFIG SET maxmemory-policy noeviction"}
	turnedAway{nil, built("tallystick"), []string{"up", "--data", t.TempDir(), "--nats", "127.0.0.1:0", "--redis", "unix://" + server.Socket}, words}.check(t)

	creds := filepath.Join(t.TempDir(), "creds")
	if _, code, text := command(t, nil, "credentials", "--out", creds); code != 0 {
		t.Fatal(text)
	}
	acl, err := os.ReadFile(filepath.Join(creds, "users.acl"))
	if err != nil {
		t.Fatal(err)
	}
	c := server.Client(t)
	for line := range strings.Lines(string(acl)) {
		if words := strings.Fields(line); len(words) > 2 && words[1] == "reserver" {
			args := []any{"ACL", "SETUSER"}
			for _, w := range words[1:] {
				args = append(args, w)
			}
			if err := c.Do(t.Context(), args...).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	turnedAway{nil, built("reserver"), []string{"--credentials", filepath.Join(creds, "reserver.json"), "--redis", "unix://" + server.Socket}, words}.check(t)
}

// TestWorkerRefusals: what is wrong with a worker's surroundings is said in words.
func TestWorkerRefusals(t *testing.T) {
	t.Parallel()
	creds := filepath.Join(t.TempDir(), "creds")
	if _, code, text := command(t, nil, "credentials", "--out", creds); code != 0 {
		t.Fatal(text)
	}
	if _, code, text := command(t, nil, "credentials", "--out", creds); code != 2 || !strings.Contains(text, "never written over") {
		t.Errorf("credentials over credentials: exit %d: %s", code, text)
	}
	open := filepath.Join(t.TempDir(), "open.json")
	text, err := os.ReadFile(filepath.Join(creds, "scribe.json"))
	if err == nil {
		err = errors.Join(os.WriteFile(open, text, 0o600), os.Chmod(open, 0o644))
	}
	if err != nil {
		t.Fatal(err)
	}
	nowhere := "127.0.0.1:" + freePort(t)
	for _, r := range []turnedAway{
		{nil, built("scribe"), nil, []string{"no credentials", "tallystick credentials --out DIR"}},
		{nil, built("scribe"), []string{"--credentials", filepath.Join(creds, "reaper.json")}, []string{`of "reaper", not of "scribe"`}},
		{nil, built("scribe"), []string{"--credentials", open}, []string{"may be read by others", "chmod 600"}},
		{nil, built("scribe"), []string{"--credentials", filepath.Join(creds, "scribe.json"), "--redis", "redis://" + nowhere, "--start-timeout", "500ms"}, []string{nowhere, "is the server running"}},
	} {
		r.check(t)
	}
	for _, worker := range workers() {
		if out, err := exec.CommandContext(t.Context(), built(worker), "--help").CombinedOutput(); err != nil || !strings.Contains(string(out), "--credentials") {
			t.Errorf("%s --help: %v: %s", worker, err, out)
		}
		if code, text := refusal(t, nil, built(worker), "--no-such-flag"); code != 2 {
			t.Errorf("%s with an unknown flag: exit %d: %s", worker, code, text)
		}
	}
}

// TestTwoOnOneDirectory: the second up refuses, the first goes on.
func TestTwoOnOneDirectory(t *testing.T) {
	t.Parallel()
	s := start(t)
	org := s.org()
	turnedAway{
		nil, built("tallystick"),
		[]string{"up", "--data", s.dir, "--nats", "127.0.0.1:0"},
		[]string{"another tallystick runs on", "another --data directory"},
	}.check(t)
	s.pool(org, "p", 10) // up.json is still there, and what it names
}

// TestRedisLeftBehind: up was killed and its redis-server lives on. The next
// up ends that and goes on with its data.
func TestRedisLeftBehind(t *testing.T) {
	t.Parallel()
	s := start(t)
	org := s.org()
	s.pool(org, "p", 100)
	a := s.agent(org, "p")
	first := a.tells("allowed", "reserve", "k", reserve(10))
	pid := s.child()
	s.signal(syscall.SIGKILL)
	s.eventually("the end of the child", 10*time.Second, func() error {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			return errors.New("alive")
		}
		return nil
	})
	// Where the kernel does not end a child with its parent, it would be this.
	left := spawn(t, s.dir, "left", exec.Command(redis1, filepath.Join(s.dir, "redis", "redis.conf")))
	t.Cleanup(func() { left.end(syscall.SIGKILL) })
	s.eventually("the server left behind", 10*time.Second, func() error { return s.redis().Ping(t.Context()).Err() })
	a.nc.Close()
	s.up()
	if !left.gone() {
		t.Error("two servers on one directory")
	}
	a.dial()
	if out := a.call("reserve", "k", reserve(10)); out["reservation"] != first["reservation"] {
		t.Errorf("replay: %v", out)
	}
	s.lawful(org)
}
