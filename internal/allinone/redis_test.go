package allinone

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

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"tallystick/internal/testkit"
	"tallystick/internal/topology"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func freshSet(t *testing.T) topology.Set {
	t.Helper()
	set, err := topology.Generate(topology.TokenHash(topology.NewToken()))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// shortDir is a directory whose path leaves room for a socket's.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "tally")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func redisIn(t *testing.T, dir string) *Redis {
	t.Helper()
	r, err := StartRedis(within(t), RedisConfig{Dir: dir, Set: freshSet(t), Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func ended(t *testing.T, r *Redis) {
	t.Helper()
	select {
	case <-r.Exited():
	case <-time.After(20 * time.Second):
		t.Fatal("the child has not ended")
	}
}

func TestRedisKeepsItsData(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	r := redisIn(t, dir)
	if err := r.client.Set(within(t), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	ended(t, r)
	r = redisIn(t, dir) // with other credentials
	if v, err := r.client.Get(within(t), "k").Result(); err != nil || v != "v" {
		t.Errorf("after a restart: %q, %v", v, err)
	}
	if err := r.child.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	ended(t, r)
	_ = r.Close()
	r = redisIn(t, dir)
	if v, err := r.client.Get(within(t), "k").Result(); err != nil || v != "v" {
		t.Errorf("after a kill: %q, %v", v, err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestRedisSettings(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	r := redisIn(t, dir)
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	for name, want := range map[string]string{
		"appendonly": "yes", "appendfsync": "always", "maxmemory-policy": "noeviction", "save": "",
		"auto-aof-rewrite-min-size": "1073741824", "bind": "127.0.0.1",
	} {
		got, err := r.client.ConfigGet(within(t), name).Result()
		if err != nil || got[name] != want {
			t.Errorf("%s is %q, want %q (%v)", name, got[name], want, err)
		}
	}
	for _, name := range []string{"redis.conf", "users.acl", "admin.secret"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	opt, err := redis.ParseURL(r.URL)
	if err != nil {
		t.Fatal(err)
	}
	opt.Username, opt.Password = "", ""
	nobody := redis.NewClient(opt)
	defer func() { _ = nobody.Close() }()
	if err := nobody.Ping(within(t)).Err(); err == nil {
		t.Error("the default user gets in")
	}
}

// A server that an earlier process left behind is ended before its AOF is
// opened again.
func TestRedisTakesOver(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	r := redisIn(t, dir)
	if err := r.client.Set(within(t), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	left := r
	r = redisIn(t, dir)
	ended(t, left)
	if v, err := r.client.Get(within(t), "k").Result(); err != nil || v != "v" {
		t.Errorf("%q, %v", v, err)
	}
	_ = left.client.Close()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

// A pid file that names somebody else's process harms nobody.
func TestRedisSparesStrangers(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	stranger := exec.Command("cat")
	stdin, err := stranger.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stranger.Dir = dir
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	pid := []byte(itoa(stranger.Process.Pid))
	if err := os.WriteFile(filepath.Join(dir, "redis.pid"), pid, 0o600); err != nil {
		t.Fatal(err)
	}
	r := redisIn(t, dir)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	_ = stdin.Close()
	if err := stranger.Wait(); err != nil {
		t.Errorf("the stranger was ended: %v", err)
	}
}

func TestRedisMissing(t *testing.T) {
	t.Parallel()
	_, err := findRedis(func(string) (string, error) { return "", exec.ErrNotFound })
	if !errors.Is(err, ErrNoRedis) {
		t.Fatalf("got %v", err)
	}
	for _, system := range []string{"Debian", "Fedora", "Alpine", "macOS"} {
		if !strings.Contains(err.Error(), system) {
			t.Errorf("no word for %s", system)
		}
	}
	valkey := func(name string) (string, error) {
		if name == "valkey-server" {
			return "/usr/bin/valkey-server", nil
		}
		return "", exec.ErrNotFound
	}
	if path, err := findRedis(valkey); err != nil || path != "/usr/bin/valkey-server" {
		t.Errorf("valkey: %q, %v", path, err)
	}
}

// A server that does not start says why.
func TestRedisDamagedAOF(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	aof := filepath.Join(dir, "appendonlydir")
	if err := os.MkdirAll(aof, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(aof, "appendonly.aof.manifest"), []byte("rubbish\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := StartRedis(within(t), RedisConfig{Dir: dir, Set: freshSet(t), Log: zerolog.Nop()})
	if err == nil || !strings.Contains(err.Error(), "manifest") {
		t.Errorf("got %v", err)
	}
}
