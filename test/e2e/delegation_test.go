package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
)

// child registers a child over the wire and connects as it.
func (a *agent) child(body object) *agent {
	a.Helper()
	c := a.born(a.tells("registered", "register", uuid.NewString(), body))
	c.dial()
	return c
}

// born is the agent of an answer to register, not connected yet.
func (a *agent) born(doc object) *agent {
	a.Helper()
	c := &agent{system: a.system, violations: make(chan string, 64)}
	text, _ := json.Marshal(doc)
	if err := json.Unmarshal(text, c); err != nil || c.Token == "" {
		a.Fatalf("register: %s", text)
	}
	return c
}

func granted(n int64) object {
	return object{"name": "g", "budget": object{"mode": "granted", "caps": usd(n)}}
}

func shared() object { return object{"name": "s"} }

// fault is an error's code and field.
func fault(o object) string {
	e, _ := o["error"].(map[string]any)
	return strings.TrimSpace(fmt.Sprint(e["code"], " ", e["field"]))
}

// TestChildren: who a child is follows from its parent; what it may spend is
// bounded by every pool above it.
func TestChildren(t *testing.T) {
	t.Parallel()
	s := start(t)
	org := s.org()
	s.pool(org, "p", 1000)
	boss := s.agent(org, "p")
	sharing, own := boss.child(shared()), boss.child(granted(100))
	grandchild := own.child(object{"name": "gg", "budget": object{"mode": "granted", "caps": usd(100)}, "purpose": "dig"})
	for _, c := range []struct {
		a            *agent
		parent, pool string
		depth        float64
	}{{sharing, boss.Agent, "p", 1}, {own, boss.Agent, own.Pool, 1}, {grandchild, own.Agent, grandchild.Pool, 2}} {
		who := c.a.call("whoami", "", object{})
		if who["parent"] != c.parent || who["root"] != boss.Agent || who["depth"] != c.depth || who["pool"] != c.pool || who["org"] != org {
			t.Errorf("whoami: %v", who)
		}
	}
	// A grant moves nothing: it only bounds.
	equal(t, "the boss's figures", boss.figures(), "held 0 spent 0 withheld 0")
	grandchild.tells("allowed", "reserve", "a", reserve(60))
	equal(t, "its parent's", own.figures(), "held 60 spent 0 withheld 0")
	equal(t, "the root's", boss.figures(), "held 60 spent 0 withheld 0")
	if out := own.tells("denied budget_exceeded", "reserve", "a", reserve(41)); out["pool"] != own.Pool || out["unit"] != "usd_microcents" || out["period"] != "none" {
		t.Errorf("%v", out)
	}
	if out := grandchild.tells("denied budget_exceeded", "reserve", "b", reserve(41)); out["pool"] != grandchild.Pool {
		t.Errorf("%v", out)
	}
	// No child may reach around its grant by naming a pool above it.
	for _, pool := range []string{"p", own.Pool, "nowhere"} {
		grandchild.tells("not_found", "reserve", "around "+pool, object{"amounts": usd(1), "pool": pool})
	}
	boss.tells("allowed", "reserve", "for the child", object{"amounts": usd(1), "pool": grandchild.Pool})
	for body, want := range map[*object]string{
		{"name": "x", "budget": object{"mode": "granted", "caps": usd(939)}}:           "registered",
		{"name": "x", "budget": object{"mode": "granted", "caps": usd(940)}}:           "limit_exceeded budget.caps",
		{"name": "x", "budget": object{"mode": "granted", "caps": object{"calls": 1}}}: "unit_unknown calls",
		{"name": "x", "budget": object{"mode": "granted"}}:                             "invalid_argument budget.caps",
		{"name": "x", "colour": "red"}:                                                 "invalid_argument colour",
		{"name": "x", "ttl_ms": 1}:                                                     "invalid_argument ttl_ms",
	} {
		out := boss.call("register", uuid.NewString(), *body)
		if got := told(out); got != want && fault(out) != want {
			t.Errorf("%v: %v, want %s", *body, out, want)
		}
	}
	s.lawful(org)
}

// TestForgedDepth, the seed attack: a payload that says who it is from, or
// where it stands, is refused by the field's name, and nothing is registered.
func TestForgedDepth(t *testing.T) {
	t.Parallel()
	s := start(t)
	org := s.org()
	s.pool(org, "p", 1000)
	a, other := s.agent(org, "p"), s.agent(org, "p")
	for _, field := range []string{"agentId", "agent_id", "parentId", "parent", "rootId", "root_id", "depth", "budgetKey", "orgId", "token", "ancestors"} {
		for _, value := range []any{other.Agent, 0, nil} {
			out := a.call("register", uuid.NewString(), object{"name": "x", field: value})
			equal(t, field, fault(out), "broker_argument "+field)
		}
	}
	if agents := s.must("agent", "list", "--org", org)["agents"].([]any); len(agents) != 2 {
		t.Errorf("%d agents", len(agents))
	}
}

// TestRegisterReplays: the same key is the same agent with a fresh token; the
// token before it ends.
func TestRegisterReplays(t *testing.T) {
	t.Parallel()
	s := start(t)
	org := s.org()
	s.pool(org, "p", 1000)
	a := s.agent(org, "p")
	first := a.born(a.tells("registered", "register", "k", granted(10)))
	again := a.born(a.tells("registered", "register", "k", granted(10)))
	if first.Agent != again.Agent || first.Token == again.Token || first.Pool != again.Pool {
		t.Errorf("%+v and %+v", first, again)
	}
	if nc, err := first.connect(s.address.NATS); err == nil {
		nc.Close()
		t.Error("the first token still connects")
	}
	again.dial()
	again.tells("allowed", "reserve", "r", reserve(10))
	equal(t, "other content", fault(a.call("register", "k", granted(11))), "key_reused <nil>")
	equal(t, "no key", fault(a.call("register", "", granted(11))), "invalid_argument Nats-Msg-Id")
	s.lawful(org)
}

// TestTwoHundredRegistrations at once end with as many children as are
// allowed, at every limit.
func TestTwoHundredRegistrations(t *testing.T) {
	t.Parallel()
	s := start(t)
	org := s.org()
	s.pool(org, "p", 1000)
	s.must("org", "set", org, "--children-max", "30", "--tree-max", "41", "--depth-max", "2")
	boss := s.agent(org, "p")
	count := func(parents ...*agent) map[string]int {
		var mu sync.Mutex
		var all sync.WaitGroup
		counts := map[string]int{}
		for i := range 200 {
			all.Go(func() {
				out, err := parents[i%len(parents)].ask("register", uuid.NewString(), shared())
				got := told(out)
				if got == "limit_exceeded" {
					got = fault(out)
				}
				if err != nil {
					got = err.Error()
				}
				mu.Lock()
				defer mu.Unlock()
				counts[got]++
			})
		}
		all.Wait()
		return counts
	}
	if got := count(boss); got["registered"] != 30 || got["limit_exceeded children"] != 170 {
		t.Errorf("children: %v", got)
	}
	agents := s.must("agent", "list", "--org", org)["agents"].([]any)
	if len(agents) != 31 {
		t.Fatalf("%d agents", len(agents))
	}
	s.must("org", "set", org, "--children-max", "60")
	middle := []*agent{boss.child(shared()), boss.child(shared())}
	if got := count(middle...); got["registered"] != 8 || got["limit_exceeded tree"] != 192 {
		t.Errorf("tree: %v", got)
	}
	show := s.must("agent", "show", "--org", org, "--agent", boss.Agent)
	if show["living_children"] != 32.0 || show["living_tree"] != 41.0 {
		t.Errorf("%v", show)
	}
	// A whole subtree that is revoked makes room for as many.
	s.must("agent", "revoke", "--org", org, "--agent", middle[0].Agent)
	room := s.must("agent", "show", "--org", org, "--agent", boss.Agent)["living_tree"].(float64)
	if room >= 41 {
		t.Errorf("after the revocation %v live", room)
	}
	leaf := middle[1].child(shared())
	equal(t, "too deep", fault(leaf.call("register", uuid.NewString(), shared())), "limit_exceeded depth")
}

// TestRevokeOwnSubtree: an agent may end itself and what is below it; anybody
// else is nobody.
func TestRevokeOwnSubtree(t *testing.T) {
	t.Parallel()
	s := start(t)
	org := s.org()
	s.pool(org, "p", 1000)
	boss, stranger := s.agent(org, "p"), s.agent(org, "p")
	child, sibling := boss.child(granted(100)), boss.child(shared())
	leaf := child.child(shared())
	foreign := s.org()
	s.pool(foreign, "p", 1000)
	other := s.agent(foreign, "p")
	nobody, err := uuid.NewV7()
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range []*agent{boss, stranger, sibling, other} {
		child.sameWords("rpc", "revoke", object{}, "agent", target.Agent, nobody.String())
	}
	leaf.tells("allowed", "reserve", "h", reserve(10))
	if out := boss.tells("revoked", "revoke", "r", object{"agent": child.Agent, "holds": "release"}); out["agents"] != 2.0 {
		t.Errorf("%v", out)
	}
	equal(t, "the hold is free", boss.figures(), "held 0 spent 0 withheld 0")
	for _, a := range []*agent{child, leaf} {
		a.tells("denied revoked", "reserve", "x", reserve(1))
		a.tells("denied revoked", "register", "x", shared())
		if out, _ := a.durable("reserve", "dx", reserve(1)); told(out) != "denied revoked" {
			t.Errorf("durable: %v", out)
		}
	}
	sibling.tells("allowed", "reserve", "x", reserve(1))
	boss.tells("revoked", "revoke", "me", object{"agent": boss.Agent})
	sibling.tells("denied revoked", "reserve", "y", reserve(1))
	sibling.tells("released", "release", "y", object{"key": "x"})
	s.lawful(org)
	s.lawful(foreign)
}

// TestRegistrationRacesRevocation: whoever wins, no child can take anything
// under a revoked parent.
func TestRegistrationRacesRevocation(t *testing.T) {
	t.Parallel()
	s := start(t)
	org := s.org()
	s.pool(org, "p", 1000)
	boss := s.agent(org, "p")
	for round := range 8 {
		parent := boss.child(shared())
		docs := make(chan object, 10)
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() {
				if i == 5 {
					if _, err := boss.ask("revoke", fmt.Sprint("r", round), object{"agent": parent.Agent}); err != nil {
						t.Error(err)
					}
					return
				}
				out, err := parent.ask("register", uuid.NewString(), shared())
				if err != nil {
					t.Error(err)
					return
				}
				docs <- out
			})
		}
		all.Wait()
		close(docs)
		for doc := range docs {
			if told(doc) == "denied revoked" {
				continue
			}
			late := parent.born(doc)
			late.dial()
			late.tells("denied revoked", "reserve", "x", reserve(1))
		}
	}
	show := s.must("agent", "show", "--org", org, "--agent", boss.Agent)
	if show["living_children"] != 0.0 || show["living_tree"] != 1.0 {
		t.Errorf("%v", show)
	}
	s.lawful(org)
}

// TestAgentsEndByThemselves: with the time to live ends the token, and the
// right to take money on connections that are open; what is held can still be
// resolved by an ancestor.
func TestAgentsEndByThemselves(t *testing.T) {
	t.Parallel()
	s := start(t)
	org := s.org()
	s.pool(org, "p", 1000)
	boss := s.agent(org, "p")
	body := granted(100)
	body["ttl_ms"] = 2500
	brief := boss.child(body)
	late := boss.born(boss.tells("registered", "register", "late", object{"name": "l", "ttl_ms": 2500}))
	grandchild := brief.child(object{"name": "gg", "ttl_ms": 3_600_000})
	if who := grandchild.call("whoami", "", object{}); who["expires_at"] != brief.call("whoami", "", object{})["expires_at"] {
		t.Errorf("a child outlives its parent: %v", who)
	}
	id := grandchild.tells("allowed", "reserve", "h", reserve(10))["reservation"]
	s.eventually("the end", 10*time.Second, func() error {
		out, err := brief.ask("reserve", uuid.NewString(), reserve(1))
		if err == nil && told(out) == "allowed" {
			return errors.New("it may still reserve")
		}
		if nc, err := late.connect(s.address.NATS); err == nil {
			nc.Close()
			return errors.New("its token still connects")
		}
		return nil
	})
	show := s.must("agent", "show", "--org", org, "--agent", brief.Agent)
	if show["revoked"] != true || show["living_children"] != 0.0 {
		t.Errorf("%v", show)
	}
	boss.tells("settled", "settle", "s", object{"reservation": id, "actual": usd(4)})
	equal(t, "living children", s.must("agent", "show", "--org", org, "--agent", boss.Agent)["living_children"], 0.0)
	s.lawful(org)
}
