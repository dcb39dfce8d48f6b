package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"
)

// system is one running `tallystick up`.
type system struct {
	testing.TB
	dir     string
	cmd     *exec.Cmd
	ended   chan struct{}
	address struct {
		NATS  string `json:"nats_url"`
		Redis string `json:"redis_url"`
		HTTP  string `json:"http_url"`
		Admin string `json:"admin_token"`
	}
}

func start(t testing.TB) *system {
	t.Helper()
	s := &system{TB: t, dir: t.TempDir()}
	s.up()
	t.Cleanup(func() {
		s.signal(syscall.SIGTERM)
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(s.dir, "up.log"))
			t.Logf("the log's end:\n%s", log[max(0, len(log)-4000):])
		}
	})
	return s
}

// up starts the process on the system's directory and waits until it is ready.
func (s *system) up() {
	s.Helper()
	log, err := os.OpenFile(filepath.Join(s.dir, "up.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.Fatal(err)
	}
	defer log.Close()
	_ = os.Remove(filepath.Join(s.dir, "up.json"))
	s.cmd = exec.Command(binary, "up", "--data", s.dir, "--nats", "127.0.0.1:0", "--http", "127.0.0.1:0")
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		s.Fatal(err)
	}
	cmd, ended := s.cmd, make(chan struct{})
	s.ended = ended
	go func() { _ = cmd.Wait(); close(ended) }()
	s.eventually("up.json", time.Minute, func() error {
		select {
		case <-ended:
			text, _ := os.ReadFile(filepath.Join(s.dir, "up.log"))
			s.Fatalf("up ended: %s", text[max(0, len(text)-2000):])
		default:
		}
		text, err := os.ReadFile(filepath.Join(s.dir, "up.json"))
		if err != nil {
			return err
		}
		return json.Unmarshal(text, &s.address)
	})
}

// signal ends the process and waits for its end.
func (s *system) signal(sig os.Signal) {
	s.Helper()
	_ = s.cmd.Process.Signal(sig)
	select {
	case <-s.ended:
	case <-time.After(30 * time.Second):
		_ = s.cmd.Process.Kill()
		s.Errorf("up did not end within 30 s of %v", sig)
	}
}

// eventually asks again until there is no error.
func (s *system) eventually(what string, within time.Duration, ask func() error) {
	s.Helper()
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
			s.Fatalf("%s: after %s still: %v", what, within, err)
		case <-again.C:
		}
	}
}

type object = map[string]any

// run is one command line; the answer is its JSON document.
func (s *system) run(args ...string) (object, int, string) {
	s.Helper()
	cmd := exec.Command(binary, append(args, "-o", "json")...)
	cmd.Env = append(os.Environ(), "TALLY_DATA="+s.dir)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	code := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		s.Fatal(err)
	}
	var doc object
	_ = json.Unmarshal(out.Bytes(), &doc)
	return doc, code, out.String() + errs.String()
}

// must is run that has to succeed.
func (s *system) must(args ...string) object {
	s.Helper()
	doc, code, text := s.run(args...)
	if code != 0 {
		s.Fatalf("%v: exit %d: %s", args, code, text)
	}
	return doc
}

func (s *system) org() string {
	s.Helper()
	org := "o" + strings.ReplaceAll(uuid.NewString(), "-", "")[:16]
	s.must("org", "create", org)
	return org
}

func (s *system) pool(org, name string, limit int64, more ...string) {
	s.Helper()
	s.must(append([]string{"pool", "create", name, "--org", org, "--unit", "usd_microcents", "--cap", fmt.Sprint(limit)}, more...)...)
}

func (s *system) redis() *redis.Client {
	s.Helper()
	opt, err := redis.ParseURL(s.address.Redis)
	if err != nil {
		s.Fatal(err)
	}
	c := redis.NewClient(opt)
	s.Cleanup(func() { _ = c.Close() })
	return c
}

// agent is a registered agent with a bare connection.
type agent struct {
	*system
	Agent, Org, Token, Pool string
	nc                      *nats.Conn
	violations              chan string
}

func (s *system) agent(org, pool string, more ...string) *agent {
	s.Helper()
	doc := s.must(append([]string{"agent", "register", "--org", org, "--name", "a", "--pool", pool}, more...)...)
	a := &agent{system: s, violations: make(chan string, 64)}
	text, _ := json.Marshal(doc)
	if err := json.Unmarshal(text, a); err != nil || a.Token == "" {
		s.Fatalf("agent register: %s", text)
	}
	a.dial()
	return a
}

func (a *agent) dial() {
	a.Helper()
	nc, err := nats.Connect(a.address.NATS, nats.Token(a.Token), nats.CustomInboxPrefix("_INBOX."+a.Agent),
		nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.IgnoreAuthErrorAbort(),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			select {
			case a.violations <- err.Error():
			default:
			}
		}))
	if err != nil {
		a.Fatal(err)
	}
	a.nc = nc
	a.Cleanup(nc.Close)
}
