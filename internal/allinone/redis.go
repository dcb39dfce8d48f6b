package allinone

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/rs/zerolog"

	"tallystick/internal/topology"
)

const (
	redisPoll      = 10 * time.Millisecond
	redisStopAfter = 15 * time.Second // how long a SHUTDOWN may take
	redisStarts    = 5                // attempts to find a free port
	socketPathMax  = 100              // the kernel takes 107 bytes
)

// ErrNoRedis: neither redis-server nor valkey-server is installed.
var ErrNoRedis = errors.New(`no redis-server or valkey-server on PATH. Install one:
  Debian, Ubuntu:  apt-get install redis-server
  Fedora:          dnf install valkey        (or: dnf install redis)
  Alpine:          apk add redis             (or: apk add valkey)
  macOS:           brew install redis
or give the address of a running one with --redis URL`)

// RedisConfig says where the private redis-server lives.
type RedisConfig struct {
	Dir string       // its AOF, configuration, socket and pid
	Set topology.Set // of the workers; the administrator is made here
	Log zerolog.Logger
	// Binary is the server to run; "" looks for one on PATH.
	Binary string
}

// Redis is a redis-server child of this process.
type Redis struct {
	// URL has full rights, over TCP on loopback.
	URL string
	// SocketURL is the same server over its unix socket, without a user; ""
	// where the directory's path is too long for one.
	SocketURL string

	cfg    RedisConfig
	client *redis.Client // the administrator's
	child  *os.Process
	exited chan struct{} // closed when the child has ended
	status error         // after exited
}

// StartRedis ends a server that an earlier, killed process left behind,
// starts a new one on the same data and returns when it has loaded them.
func StartRedis(ctx context.Context, c RedisConfig) (*Redis, error) {
	if c.Dir == "" {
		return nil, errors.New("redis: no directory")
	}
	if c.Binary == "" {
		var err error
		if c.Binary, err = findRedis(exec.LookPath); err != nil {
			return nil, err
		}
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	c.Dir = dir
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	if err := endLeftBehind(ctx, c); err != nil {
		return nil, fmt.Errorf("redis: a server left behind: %w", err)
	}
	for attempt := 1; ; attempt++ {
		r, err := startRedis(ctx, c)
		if err == nil {
			return r, nil
		}
		if attempt == redisStarts || !errors.Is(err, errPortTaken) {
			return nil, err
		}
	}
}

func findRedis(look func(string) (string, error)) (string, error) {
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := look(name); err == nil {
			return path, nil
		}
	}
	return "", ErrNoRedis
}

// errPortTaken: somebody was faster; another port is tried.
var errPortTaken = errors.New("the chosen port was taken")

func startRedis(ctx context.Context, c RedisConfig) (*Redis, error) {
	port, err := freePort()
	if err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	r := &Redis{cfg: c, exited: make(chan struct{})}
	admin, err := c.admin()
	if err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	addr := "127.0.0.1:" + strconv.Itoa(port)
	r.URL = (&url.URL{Scheme: "redis", User: url.UserPassword(admin.User, admin.Password), Host: addr, Path: "/0"}).String()
	if c.hasSocket() {
		r.SocketURL = "unix://" + c.socket()
	}
	if err := c.writeFiles(port, admin); err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	_ = os.Remove(c.path("redis.log")) // what is quoted below is of this start
	if err := r.spawn(); err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	r.client = adminClient("tcp", addr, admin)
	if err := r.await(ctx); err != nil {
		tail := c.logTail()
		err = errors.Join(fmt.Errorf("%s: %w\n%s", filepath.Base(c.Binary), err, tail), r.Close())
		if strings.Contains(tail, "Address already in use") {
			err = errors.Join(errPortTaken, err)
		}
		return nil, err
	}
	return r, nil
}

// spawn starts the child from a thread that stays: Linux ends a child with the
// thread that made it, and Go ends threads as it likes.
func (r *Redis) spawn() error {
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		cmd := exec.Command(r.cfg.Binary, r.cfg.path("redis.conf"))
		cmd.Dir = r.cfg.Dir
		cmd.SysProcAttr = childAttr()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		r.child = cmd.Process
		started <- nil
		r.status = cmd.Wait()
		close(r.exited)
	}()
	return <-started
}

// await returns when the server answers and has loaded its data.
func (r *Redis) await(ctx context.Context) error {
	poll := time.NewTicker(redisPoll)
	defer poll.Stop()
	for {
		// Knock first: the client pauses and complains where nobody listens.
		err := knock(r.client.Options().Addr)
		if err == nil {
			err = r.client.Ping(ctx).Err()
		}
		if err == nil {
			return nil
		}
		select {
		case <-r.exited:
			return fmt.Errorf("ended at once: %w", errOrExit(r.status))
		case <-ctx.Done():
			return fmt.Errorf("not ready in time: %w", err)
		case <-poll.C:
		}
	}
}

// Exited is closed when the child has ended, whoever ended it.
func (r *Redis) Exited() <-chan struct{} { return r.exited }

// Close shuts the server down and waits for it.
func (r *Redis) Close() error {
	defer func() { _ = r.client.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), redisStopAfter)
	defer cancel()
	select {
	case <-r.exited: // by itself, or killed: nobody is there to be told
		return nil
	default:
	}
	// Its answer is that the connection ends.
	_ = r.client.Shutdown(ctx).Err()
	select {
	case <-r.exited:
		return nil
	case <-ctx.Done():
	}
	// Everything it has acknowledged is in the AOF.
	err := r.child.Kill()
	<-r.exited
	return errors.Join(fmt.Errorf("redis: not shut down within %s, so it was killed", redisStopAfter), err)
}

// endLeftBehind ends a server that still has this directory's files open. The
// caller holds the directory's lock, so it belongs to nobody.
func endLeftBehind(ctx context.Context, c RedisConfig) error {
	pid := c.leftPID()
	if pid == 0 && !c.socketAnswers() {
		return nil
	}
	c.Log.Warn().Int("pid", pid).Msg("ending a redis-server that an earlier process left behind")
	if admin, err := c.admin(); err == nil && c.hasSocket() {
		client := adminClient("unix", c.socket(), admin)
		defer func() { _ = client.Close() }()
		_ = client.Shutdown(ctx).Err()
	}
	if pid != 0 {
		_ = syscall.Kill(pid, syscall.SIGTERM) // the same, where the socket does not answer
	}
	deadline := time.NewTimer(redisStopAfter)
	defer deadline.Stop()
	poll := time.NewTicker(redisPoll)
	defer poll.Stop()
	for pid != 0 && c.leftPID() == pid || c.socketAnswers() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("pid %d: %w", pid, ctx.Err())
		case <-deadline.C:
			if pid == 0 {
				return errors.New("it does not shut down")
			}
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				return fmt.Errorf("pid %d: %w", pid, err)
			}
		case <-poll.C:
		}
	}
	return nil
}

// leftPID is the process that the pid file names, if it is a server of this
// directory and not another that was given the same number; else 0.
func (c RedisConfig) leftPID() int {
	text, err := os.ReadFile(c.path("redis.pid"))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid <= 1 || !runsIn(pid, c.Dir) {
		return 0
	}
	return pid
}

func (c RedisConfig) socketAnswers() bool {
	if !c.hasSocket() {
		return false
	}
	conn, err := net.DialTimeout("unix", c.socket(), time.Second)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

func (c RedisConfig) path(name string) string { return filepath.Join(c.Dir, name) }
func (c RedisConfig) socket() string          { return c.path("redis.sock") }
func (c RedisConfig) hasSocket() bool         { return len(c.socket()) <= socketPathMax }

// logTail is what the server said last.
func (c RedisConfig) logTail() string {
	text, err := os.ReadFile(c.path("redis.log"))
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-8):], "\n")
}

// adminClient needs one connection. Its pool is larger because as many failed
// dials as the pool is large start a goroutine of the library that outlives
// Close by a second.
func adminClient(network, addr string, user topology.User) *redis.Client {
	return redis.NewClient(&redis.Options{
		Network: network, Addr: addr, Username: user.User, Password: user.Password,
		MaxRetries: -1, ContextTimeoutEnabled: true, DialTimeout: time.Second, DialerRetries: 1,
		ReadTimeout: redisStopAfter, PoolSize: 8, DisableIdentity: true, PipelinePoolSize: -1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

func knock(addr string) error {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	return conn.Close()
}

func freePort() (int, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	addr, ok := ln.Addr().(*net.TCPAddr)
	if err := ln.Close(); err != nil || !ok {
		return 0, fmt.Errorf("no free port: %w", err)
	}
	return addr.Port, nil
}

func errOrExit(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}
