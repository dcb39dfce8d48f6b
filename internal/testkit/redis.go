package testkit

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

var sharedRedis shared[*RedisServer]

// Redis gives a client of the server that all tests of a package share. Tests
// tell their data apart by fresh ids, so they run in parallel.
func Redis(t testing.TB) *redis.Client {
	t.Helper()
	return sharedRedis.use(t, func() (*RedisServer, error) { return startRedis() }).Client(t)
}

// RedisServer is one redis-server child on a unix socket.
type RedisServer struct {
	Socket string

	dir  string
	args []string
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
}

// OwnRedis starts a server for one test alone, to be killed, emptied or
// configured by args such as "--appendonly", "yes".
func OwnRedis(t testing.TB, args ...string) *RedisServer {
	t.Helper()
	s, err := startRedis(args...)
	if err != nil {
		t.Fatalf("redis-server: %v", err)
	}
	t.Cleanup(s.end)
	return s
}

func startRedis(args ...string) (*RedisServer, error) {
	// Not the test's own directory: a socket's path may have 107 bytes.
	dir, err := os.MkdirTemp("", "tally")
	if err != nil {
		return nil, err
	}
	s := &RedisServer{Socket: filepath.Join(dir, "redis.sock"), dir: dir, args: args}
	if err := s.run(); err != nil {
		s.end()
		return nil, err
	}
	return s, nil
}

// serverName is redis-server, or valkey-server where only that is installed.
func serverName() string {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return "valkey-server"
	}
	return "redis-server"
}

func (s *RedisServer) run() error {
	args := []string{"--port", "0", "--unixsocket", s.Socket, "--dir", s.dir, "--save", "", "--appendonly", "no"}
	cmd := exec.Command(serverName(), append(args, s.args...)...)
	cmd.SysProcAttr = childAttr()
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan struct{})
	s.cmd, s.done = cmd, done
	go func() {
		defer close(done)
		_ = cmd.Wait()
	}()
	ctx, cancel := context.WithTimeout(context.Background(), startWait)
	defer cancel()
	return s.ready(ctx)
}

// ready waits until the server answers. The socket is tried first, because
// go-redis logs each failure to connect.
func (s *RedisServer) ready(ctx context.Context) error {
	retry := time.NewTicker(2 * time.Millisecond)
	defer retry.Stop()
	for {
		conn, err := net.Dial("unix", s.Socket)
		if err == nil {
			_ = conn.Close()
			break
		}
		select {
		case <-ctx.Done():
			return err
		case <-s.done:
			return fmt.Errorf("ended at once: %s", s.cmd.ProcessState)
		case <-retry.C:
		}
	}
	c := newClient(s.Socket)
	defer c.Close()
	for {
		err := c.Ping(ctx).Err() // an error while an AOF is loading
		if err == nil || ctx.Err() != nil {
			return err
		}
		<-retry.C
	}
}

// Kill ends the server as kill -9 does.
func (s *RedisServer) Kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		<-s.done
		s.cmd = nil
	}
}

// Restart starts a killed server again on its socket and directory.
func (s *RedisServer) Restart(t testing.TB) {
	t.Helper()
	if err := s.run(); err != nil {
		t.Fatalf("redis-server: %v", err)
	}
}

// Client gives a client set up as the workers' are; it closes with the test.
func (s *RedisServer) Client(t testing.TB) *redis.Client {
	c := newClient(s.Socket)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func (s *RedisServer) end() {
	s.Kill()
	_ = os.RemoveAll(s.dir)
}

func newClient(socket string) *redis.Client {
	return redis.NewClient(&redis.Options{
		Network: "unix", Addr: socket,
		MaxRetries: -1, ContextTimeoutEnabled: true, ReadTimeout: 2 * time.Second, DialerRetries: 1,
		DisableIdentity: true, PipelinePoolSize: -1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}
