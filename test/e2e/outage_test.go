package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// testRedisKilled: while Redis is away nothing is allowed, everybody says so
// soon, and commands wait; when it is back they are decided.
func (p *apart) testRedisKilled() {
	org := p.org()
	p.pool(org, "p", 1000)
	a := p.agent(org, "p")
	first := a.tells("allowed", "reserve", "k", reserve(10))
	p.kill(redis1)
	a.unavailable()
	p.eventually("not ready", 10*time.Second, func() error {
		status, body, err := get("http://" + p.http["reserver"] + "/readyz")
		if err != nil || status != http.StatusServiceUnavailable || !strings.Contains(body, "redis") {
			return fmt.Errorf("%d %s: %w", status, body, err)
		}
		return nil
	})
	if status, _, err := get("http://" + p.http["reserver"] + "/healthz"); err != nil || status != http.StatusOK {
		p.Errorf("/healthz while Redis is away: %d, %v", status, err)
	}
	queued, settled := a.command("reserve", "queued", reserve(20)), a.command("settle", "s", object{"key": "k", "actual": usd(7)})
	p.start(redis1)
	if out, _ := a.decision(queued, 20*time.Second); told(out) != "allowed" {
		p.Errorf("the queued reserve: %v", out)
	}
	if out, _ := a.decision(settled, 20*time.Second); told(out) != "settled" {
		p.Errorf("the queued settle: %v", out)
	}
	p.ready()
	a.honest("allowed", "reserve", "direct again", reserve(1))
	if out := a.call("reserve", "k", reserve(10)); out["reservation"] != first["reservation"] {
		p.Errorf("replay: %v", out)
	}
	equal(p.TB, "figures", a.figures(), "held 21 spent 7 withheld 0")
	p.lawful(org)
}

// unavailable: every verb at the direct door says so, within a few seconds.
func (a *agent) unavailable() {
	a.Helper()
	for verb, body := range map[string]object{
		"reserve": reserve(1), "charge": {"actual": usd(1)}, "settle": {"key": "k", "actual": usd(5)},
		"release": {"key": "k"}, "extend": {"key": "k", "add": usd(1)}, "balance": {}, "reservation": {"key": "k"},
	} {
		key := "away-" + verb
		if verb == "balance" || verb == "reservation" {
			key = ""
		}
		began := time.Now()
		a.tells("unavailable", verb, key, body)
		if took := time.Since(began); took > 5*time.Second {
			a.Errorf("%s was told unavailable after %s", verb, took)
		}
	}
}

// honest is a request that is repeated, with its key, while the answer is
// unavailable: a connection that broke is noticed when it is used.
func (a *agent) honest(want, verb, key string, body any) (out object) {
	a.Helper()
	a.eventually(verb+" "+key, 10*time.Second, func() error {
		if out = a.call(verb, key, body); told(out) != want {
			return fmt.Errorf("%v, want %s", out, want)
		}
		return nil
	})
	return out
}

// testNATSKilled: every connection of every worker, and the agent's, finds
// the server again; nothing accepted is lost.
func (p *apart) testNATSKilled() {
	org := p.org()
	p.pool(org, "p", 1000)
	a := p.agent(org, "p")
	first := a.tells("allowed", "reserve", "k", reserve(10))
	a.store("reserve", "accepted before", reserve(20))
	p.kill(nats1)
	p.eventually("not ready", 10*time.Second, func() error {
		for _, worker := range workers() {
			if status, body, err := get("http://" + p.http[worker] + "/readyz"); err != nil || status != http.StatusServiceUnavailable {
				return fmt.Errorf("%s: %d %s: %w", worker, status, body, err)
			}
		}
		return nil
	})
	p.start(nats1)
	p.ready()
	a.reconnected()
	p.eventually("the agent's subscription to its inbox", 10*time.Second, func() error {
		_, err := a.ask("whoami", "", object{})
		return err
	})
	a.honest("allowed", "reserve", "k2", reserve(5))
	again := a.tells("allowed", "reserve", "k", reserve(10))
	equal(p.TB, "reservation", again["reservation"], first["reservation"])
	p.eventually("the command from before", 20*time.Second, func() error {
		if out := a.call("reservation", "", object{"key": "accepted before"}); out["state"] != "held" {
			return fmt.Errorf("%v", out)
		}
		return nil
	})
	if out, _ := a.durable("settle", "s", object{"key": "k", "actual": usd(7)}); told(out) != "settled" {
		p.Errorf("durable settle: %v", out)
	}
	left := a.tells("allowed", "reserve", "left", object{"amounts": usd(1), "ttl_ms": 1000})
	p.eventually("a report after the restart", 20*time.Second, func() error {
		if n := p.expiries(org)[fmt.Sprint(left["reservation"])]; n != 1 {
			return fmt.Errorf("%d events", n)
		}
		return nil
	})
	equal(p.TB, "figures", a.figures(), "held 25 spent 7 withheld 1")
	p.lawful(org)
}

// child is the private redis-server of `up`.
func (s *system) child() int {
	s.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, "redis", "redis.pid"))
	if err != nil {
		s.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid < 2 {
		s.Fatalf("redis.pid: %q", text)
	}
	return pid
}

// TestRedisStands: a Redis that does not answer is as good as none. What it
// was sent meanwhile it does when it goes on, and repeating finds that out.
func TestRedisStands(t *testing.T) {
	t.Parallel()
	s := start(t)
	org := s.org()
	s.pool(org, "p", 1000)
	a := s.agent(org, "p")
	a.tells("allowed", "reserve", "k", reserve(10))
	pid := s.child()
	stop := func(sig syscall.Signal) {
		if err := syscall.Kill(pid, sig); err != nil {
			t.Fatal(err)
		}
	}
	stop(syscall.SIGSTOP)
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
	began := time.Now()
	a.tells("unavailable", "reserve", "unheard", reserve(20))
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("told unavailable after %s", took)
	}
	queued := a.command("reserve", "queued", reserve(30))
	stop(syscall.SIGCONT)
	if out, _ := a.decision(queued, 20*time.Second); told(out) != "allowed" {
		t.Errorf("the queued reserve: %v", out)
	}
	a.honest("allowed", "reserve", "unheard", reserve(20))
	s.eventually("each held once", 10*time.Second, func() error {
		if got := a.figures(); got != "held 60 spent 0 withheld 0" {
			return errors.New(got)
		}
		return nil
	})
	s.lawful(org)
}

// TestRedisChildKilled: up ends with a word why, and the next start continues.
func TestRedisChildKilled(t *testing.T) {
	t.Parallel()
	s := start(t)
	org := s.org()
	s.pool(org, "p", 1000)
	a := s.agent(org, "p")
	first := a.tells("allowed", "reserve", "k", reserve(10))
	if err := syscall.Kill(s.child(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.eventually("the end of up", 60*time.Second, func() error {
		if !s.proc.gone() {
			return errors.New("still running")
		}
		return nil
	})
	if code := s.proc.cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(s.proc.text(), "the redis-server child has ended") {
		t.Errorf("exit %d: %s", code, s.proc.text())
	}
	a.nc.Close()
	s.up()
	a.dial()
	if out := a.call("reserve", "k", reserve(10)); out["reservation"] != first["reservation"] {
		t.Errorf("replay: %v", out)
	}
	s.lawful(org)
}
