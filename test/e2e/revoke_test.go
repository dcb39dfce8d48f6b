package e2e

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// TestRevoke: from the next decision on the agent and its subtree take
// nothing new, at both doors and on connections that are open; what they hold
// they can still settle and release.
func TestRevoke(t *testing.T) {
	t.Parallel()
	s := start(t)
	org := s.org()
	s.pool(org, "p", 1000)
	top, other := s.agent(org, "p"), s.agent(org, "p")
	child := s.agent(org, "p", "--parent", top.Agent)
	grandchild := s.agent(org, "p", "--parent", child.Agent)
	family := []*agent{top, child, grandchild}
	for _, a := range append(family, other) {
		for _, key := range []string{"h1", "h2", "h3", "h4"} {
			a.tells("allowed", "reserve", key, reserve(10))
		}
	}
	if doc := s.must("agent", "revoke", "--org", org, "--agent", top.Agent); doc["outcome"] != "revoked" || doc["agents"] != float64(3) {
		t.Fatalf("revoke: %v", doc)
	}
	for _, a := range family {
		a.revoked()
	}
	other.tells("allowed", "reserve", "not mine", reserve(10))

	// An ancestor, though revoked, may settle what its dead child holds; and a
	// revoked token still signs in.
	id := grandchild.call("reservation", "", object{"key": "h4"})["reservation"]
	top.nc.Close()
	top.dial()
	top.tells("settled", "settle", "for my grandchild", object{"reservation": id, "actual": usd(1)})

	if _, code, text := s.run("agent", "register", "--org", org, "--name", "late", "--pool", "p", "--parent", grandchild.Agent); code == 0 {
		t.Errorf("a child of a revoked agent was registered: %s", text)
	}
	// Revoking twice changes nothing.
	s.must("agent", "revoke", "--org", org, "--agent", top.Agent)
	equal(t, "figures", other.figures(), "held 70 spent 10 withheld 0")
	s.lawful(org)
}

// revoked: what a revoked agent may and may not do; it uses up h1, h2 and h3.
func (a *agent) revoked() {
	a.Helper()
	more := object{"key": "h1", "add": usd(1)}
	a.tells("denied revoked", "reserve", "no", reserve(1))
	a.tells("denied revoked", "charge", "no", object{"actual": usd(1)})
	a.tells("denied revoked", "extend", "no", more)
	for verb, body := range map[string]object{"reserve": reserve(1), "charge": {"actual": usd(1)}, "extend": more} {
		if out, _ := a.durable(verb, "durable no", body); told(out) != "denied revoked" {
			a.Errorf("durable %s: %v", verb, out)
		}
	}
	a.tells("allowed", "reserve", "h1", reserve(10)) // an answer given before
	a.tells("charged", "charge", "already spent", object{"actual": usd(1), "incurred": true})
	a.tells("settled", "settle", "s", object{"key": "h1", "actual": usd(1)})
	a.tells("released", "release", "r", object{"key": "h2"})
	if out, _ := a.durable("settle", "ds", object{"key": "h3", "actual": usd(1)}); told(out) != "settled" {
		a.Errorf("durable settle: %v", out)
	}
}

// TestRevokeReleases: with --holds release the answer comes after every hold
// of the subtree is free.
func TestRevokeReleases(t *testing.T) {
	t.Parallel()
	s := start(t)
	org, rdb := s.org(), s.redis()
	s.pool(org, "p", 1000)
	top, other := s.agent(org, "p"), s.agent(org, "p")
	child := s.agent(org, "p", "--parent", top.Agent)
	for _, a := range []*agent{top, child} {
		for _, key := range []string{"h1", "h2", "h3"} {
			a.tells("allowed", "reserve", key, reserve(10))
		}
	}
	other.tells("allowed", "reserve", "mine", reserve(7))
	top.tells("denied overrun", "settle", "dear", object{"key": "h3", "actual": usd(5_000_000)})
	s.must("agent", "revoke", "--org", org, "--agent", top.Agent, "--holds", "release")
	// What a refused settle has told the cost of is not given back: it waits
	// for its deadline, as without the revocation.
	equal(t, "counters", counters(t, rdb, org, "p"), "held 17 spent 0 withheld 0")
	for _, a := range []*agent{top, child} {
		for _, key := range []string{"h1", "h2"} {
			equal(t, "state", a.call("reservation", "", object{"key": key})["state"], "released")
		}
		a.tells("denied revoked", "reserve", "more", reserve(1))
	}
	top.tells("already_released", "settle", "too late", object{"key": "h1", "actual": usd(1)})
	other.tells("settled", "settle", "s", object{"key": "mine", "actual": usd(7)})
	s.lawful(org)
}

// TestRotateWithOverlap: both tokens are the agent's until the old one ends.
func TestRotateWithOverlap(t *testing.T) {
	t.Parallel()
	s := start(t)
	org := s.org()
	s.pool(org, "p", 1000)
	a := s.agent(org, "p")
	doc := s.must("agent", "rotate", "--org", org, "--agent", a.Agent, "--overlap", "3s")
	fresh := *a
	fresh.Token, _ = doc["token"].(string)
	fresh.dial()
	a.nc.Close()
	a.dial() // with the old token, while it works
	a.tells("allowed", "reserve", "old", reserve(1))
	fresh.tells("allowed", "reserve", "new", reserve(1))
	s.eventually("the old token ends", 15*time.Second, func() error {
		nc, err := a.connect(s.address.NATS)
		if err == nil {
			nc.Close()
			return errors.New("it still connects")
		}
		if a.nc.IsConnected() {
			return errors.New("a connection outlives it")
		}
		return nil
	})
	fresh.tells("released", "release", "r", object{"key": "old"})
}

// TestRotate: the new token is the agent's, the old one is nobody's.
func TestRotate(t *testing.T) {
	t.Parallel()
	s := start(t)
	org := s.org()
	s.pool(org, "p", 1000)
	a := s.agent(org, "p")
	first := a.tells("allowed", "reserve", "k", reserve(10))
	doc := s.must("agent", "rotate", "--org", org, "--agent", a.Agent)
	old := *a
	a.Token, _ = doc["token"].(string)
	if a.Token == "" || a.Token == old.Token || doc["agent"] != a.Agent {
		t.Fatalf("rotate: %v", doc)
	}
	if nc, err := old.connect(s.address.NATS); !errors.Is(err, nats.ErrAuthorization) {
		if err == nil {
			nc.Close()
		}
		t.Errorf("the old token: %v", err)
	}
	if _, code, text := old.run("balance"); code != 6 {
		t.Errorf("the old token on the command line: exit %d: %s", code, text)
	}
	a.dial()
	if out := a.call("reserve", "k", reserve(10)); out["reservation"] != first["reservation"] {
		t.Errorf("replay under the new token: %v", out)
	}
	s.eventually("the balance", 5*time.Second, func() error {
		if got := a.figures(); got != "held 10 spent 0 withheld 0" {
			return errors.New(got)
		}
		return nil
	})
}
