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

// system is one running installation: `tallystick up`, or [apart].
type system struct {
	testing.TB
	dir     string
	env     []string // how the command line finds it, as its operator
	more    []string // flags of up
	proc    *process
	address struct {
		NATS  string `json:"nats_url"`
		Redis string `json:"redis_url"`
		HTTP  string `json:"http_url"`
		Admin string `json:"admin_token"`
	}
}

// start runs `tallystick up` until the test ends.
func start(t testing.TB, more ...string) *system {
	t.Helper()
	s := &system{TB: t, dir: t.TempDir(), more: more}
	s.env = []string{"TALLY_DATA=" + s.dir}
	s.up()
	t.Cleanup(func() {
		s.signal(syscall.SIGTERM)
		if t.Failed() {
			t.Logf("the log's end:\n%s", s.proc.text())
		}
	})
	return s
}

// on is the same system, for a part of the test.
func (s *system) on(t testing.TB) *system {
	part := *s
	part.TB = t
	return &part
}

// up starts the process on the system's directory and waits until it is ready.
func (s *system) up() {
	s.Helper()
	_ = os.Remove(filepath.Join(s.dir, "up.json"))
	args := append([]string{"up", "--data", s.dir, "--nats", "127.0.0.1:0", "--http", "127.0.0.1:0"}, s.more...)
	s.proc = spawn(s.TB, s.dir, "up", exec.Command(built("tallystick"), args...))
	s.eventually("up.json", time.Minute, func() error {
		if s.proc.gone() {
			s.Fatalf("up ended: %s", s.proc.text())
		}
		text, err := os.ReadFile(filepath.Join(s.dir, "up.json"))
		if err != nil {
			return err
		}
		return json.Unmarshal(text, &s.address)
	})
}

// signal ends the process and waits for its end.
func (s *system) signal(sig syscall.Signal) {
	s.Helper()
	s.proc.end(sig)
}

func (s *system) eventually(what string, within time.Duration, ask func() error) {
	s.Helper()
	eventually(s.TB, what, within, ask)
}

type object = map[string]any

// run is one command line; the answer is its JSON document.
func (s *system) run(args ...string) (object, int, string) {
	s.Helper()
	return command(s.TB, s.env, append(args, "-o", "json")...)
}

// command runs the binary, knowing nothing but env of where a system is.
func command(t testing.TB, env []string, args ...string) (object, int, string) {
	t.Helper()
	cmd := exec.Command(built("tallystick"), args...)
	cmd.Env = append(os.Environ(), "TALLY_DATA=", "TALLY_URL=", "TALLY_TOKEN=")
	cmd.Env = append(cmd.Env, env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	code := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
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

// redis is a client with full rights.
func (s *system) redis() *redis.Client {
	s.Helper()
	opt, err := redis.ParseURL(s.address.Redis)
	if err != nil {
		s.Fatal(err)
	}
	opt.MaxRetries = -1
	c := redis.NewClient(opt)
	s.Cleanup(func() { _ = c.Close() })
	return c
}

// counters are a pool's held, spent and withheld as Redis has them: asking
// disturbs no worker.
func counters(t testing.TB, rdb *redis.Client, org, pool string) string {
	t.Helper()
	seg := func(v string) string { return fmt.Sprintf("%d:%s", len(v), v) }
	keys, err := rdb.Keys(t.Context(), "bp:*"+seg(org)+seg(pool)+"*").Result()
	if err != nil || len(keys) != 1 {
		t.Fatalf("limits of %s: %v, %v", pool, keys, err)
	}
	v, err := rdb.HMGet(t.Context(), keys[0], "held", "spent", "withheld").Result()
	if err != nil {
		t.Fatal(err)
	}
	for i := range v {
		if v[i] == nil {
			v[i] = "0"
		}
	}
	return fmt.Sprintf("held %v spent %v withheld %v", v...)
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
	a := s.register(org, pool, more...)
	a.dial()
	return a
}

// register is an agent that is not connected yet.
func (s *system) register(org, pool string, more ...string) *agent {
	s.Helper()
	doc := s.must(append([]string{"agent", "register", "--org", org, "--name", "a", "--pool", pool}, more...)...)
	a := &agent{system: s, violations: make(chan string, 64)}
	text, _ := json.Marshal(doc)
	if err := json.Unmarshal(text, a); err != nil || a.Token == "" {
		s.Fatalf("agent register: %s", text)
	}
	return a
}

// dial opens the agent's connection, to the system or to what stands before it.
func (a *agent) dial(before ...string) {
	a.Helper()
	nc, err := a.connect(append(before, a.address.NATS)[0])
	if err != nil {
		a.Fatal(err)
	}
	a.nc = nc
	a.Cleanup(nc.Close)
}

func (a *agent) connect(url string) (*nats.Conn, error) {
	return nats.Connect(url, nats.Token(a.Token), nats.CustomInboxPrefix("_INBOX."+a.Agent),
		nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.IgnoreAuthErrorAbort(),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			select {
			case a.violations <- err.Error():
			default:
			}
		}))
}

// on is the same agent, for a part of the test.
func (a *agent) on(t testing.TB) *agent {
	part := *a
	part.system = a.system.on(t)
	return &part
}

// run is one command line as this agent.
func (a *agent) run(args ...string) (object, int, string) {
	a.Helper()
	return command(a.TB, append(a.env, "TALLY_TOKEN="+a.Token), append(args, "-o", "json")...)
}
