package registrar_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"tallystick/internal/registry"
	"tallystick/internal/topology"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
	"tallystick/pkg/redisx"
)

func TestAgentsFormATree(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.pool("p", 100)
	root := w.agent("")
	if root.Depth != 0 || root.Root != root.Agent || root.Parent != "" || root.Org != w.org || !topology.ValidToken(root.Token) || !events.ValidAgent(root.Agent) {
		t.Errorf("root %+v", root)
	}
	last := root
	for depth := 1; depth <= int(registry.DepthMaxDefault); depth++ {
		child := w.agent(last.Agent)
		if child.Depth != depth || child.Root != root.Agent || child.Parent != last.Agent {
			t.Errorf("child %+v", child)
		}
		last = child
	}
	a, _, err := w.dir.Agent(t.Context(), w.org, last.Agent)
	must(t, err)
	if len(a.Ancestors) != 5 || a.Ancestors[0] != last.Parent || a.Ancestors[4] != root.Agent || !a.ExpiresAt.IsZero() {
		t.Errorf("%+v", a)
	}
	if r := w.refused(events.AdminAgentRegister, `{"org":"O","name":"n","pool":"p","parent":"`+last.Agent+`"}`); r != "limit_exceeded depth" {
		t.Error(r)
	}
}

func TestBadAgentsAreRefused(t *testing.T) {
	t.Parallel()
	w, other := newWorld(t), newWorld(t)
	w.pool("p", 100)
	other.pool("p", 100)
	stranger := other.agent("").Agent
	for _, c := range []struct{ verb, body, want string }{
		{events.AdminAgentRegister, `{"org":"O","name":"n","pool":"x"}`, "not_found pool"},
		{events.AdminAgentRegister, `{"org":"nobody","name":"n","pool":"p"}`, "not_found pool"},
		{events.AdminAgentRegister, `{"org":"O","name":"","pool":"p"}`, "invalid_argument name"},
		{events.AdminAgentRegister, `{"org":"O","name":"n","pool":"p","depth":0}`, "broker_argument depth"},
		{events.AdminAgentRegister, `{"org":"O","name":"n","pool":"p","parent":"` + stranger + `"}`, "not_found parent"},
		{events.AdminAgentRevoke, `{"org":"O","agent":"` + stranger + `"}`, "not_found agent"},
		{events.AdminAgentRotate, `{"org":"O","agent":"` + stranger + `"}`, "not_found agent"},
		{events.AdminAgentList, `{"org":"nobody"}`, "not_found org"},
		{events.AdminAgentList, ``, "invalid_argument"},
	} {
		if got := w.refused(c.verb, c.body); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.verb, c.body, got, c.want)
		}
	}
	var list events.AgentListAnswer
	w.ok(events.AdminAgentList, `{"org":"O"}`, &list)
	if len(list.Agents) != 0 {
		t.Errorf("%+v", list)
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.pool("p", 100)
	var a events.AgentRegisterAnswer
	w.ok(events.AdminAgentRegister, `{"org":"O","name":"n","pool":"p","ttl_ms":3600000}`, &a)
	who := func(token string) (string, time.Time) {
		org, id, expires, err := w.dir.Token(t.Context(), topology.TokenHash(token))
		if errors.Is(err, registry.ErrNotFound) {
			return "", expires
		}
		must(t, err)
		return org + " " + id, expires
	}
	id, expires := who(a.Token)
	if id != w.org+" "+a.Agent || time.Until(expires) < 59*time.Minute || time.Until(expires) > time.Hour {
		t.Errorf("%s until %s", id, expires)
	}
	var rotated events.AgentRotateAnswer
	w.ok(events.AdminAgentRotate, `{"org":"O","agent":"`+a.Agent+`"}`, &rotated)
	if rotated.Agent != a.Agent || rotated.Name != "n" || rotated.Pool != "p" || rotated.Org != w.org || !topology.ValidToken(rotated.Token) {
		t.Errorf("%+v", rotated)
	}
	if id, _ := who(a.Token); id != "" {
		t.Error("the old token still leads to", id)
	}
	if id, _ := who(rotated.Token); id != w.org+" "+a.Agent {
		t.Error("the new token leads to", id)
	}
	var list events.AgentListAnswer
	w.ok(events.AdminAgentList, `{"org":"O"}`, &list)
	if len(list.Agents) != 1 || list.Agents[0].TokenHint != topology.TokenHint(rotated.Token) || list.Agents[0].Revoked {
		t.Errorf("%+v", list)
	}
}

// TestRevokeReachesTheSubtree: nothing new is taken below, nothing is
// registered below, and what is beside goes on. Keep is the default.
func TestRevokeReachesTheSubtree(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	limit := w.pool("p", 100)
	root := w.agent("").Agent
	child, sibling := w.agent(root).Agent, w.agent(root).Agent
	grandchild := w.agent(child).Agent
	w.reserve(grandchild, "before", limit, 5)
	for range 2 { // the second changes nothing
		var got events.RevokeAnswer
		w.ok(events.AdminAgentRevoke, `{"org":"O","agent":"`+child+`"}`, &got)
		if got.Outcome != "revoked" || got.Agents != 2 {
			t.Errorf("%+v", got)
		}
	}
	if held := w.row(limit).Held; held != 5 {
		t.Errorf("held %d", held)
	}
	if d := w.reserve(grandchild, "after", limit, 1); d.Denial == nil || d.Denial.Reason != budget.ReasonRevoked {
		t.Errorf("grandchild: %+v", d)
	}
	if d := w.reserve(sibling, "after", limit, 1); d.Outcome != budget.Allowed {
		t.Errorf("sibling: %+v", d)
	}
	for _, parent := range []string{child, grandchild} {
		if r := w.refused(events.AdminAgentRegister, `{"org":"O","name":"n","pool":"p","parent":"`+parent+`"}`); r != "invalid_argument parent" {
			t.Error(r)
		}
	}
	var list events.AgentListAnswer
	w.ok(events.AdminAgentList, `{"org":"O"}`, &list)
	for i, want := range []bool{false, true, false, true} {
		if list.Agents[i].Revoked != want {
			t.Errorf("agent %d: %+v", i, list.Agents[i])
		}
	}
}

// TestRevokeReleasesEveryHold: when the answer is there, so is the money.
func TestRevokeReleasesEveryHold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	limit := w.pool("p", 10_000)
	root := w.agent("").Agent
	child := w.agent(root).Agent
	for i := range 300 {
		w.reserve(child, fmt.Sprint(i), limit, 2)
	}
	w.reserve(root, "own", limit, 7)
	var got events.RevokeAnswer
	w.ok(events.AdminAgentRevoke, `{"org":"O","agent":"`+child+`","holds":"release"}`, &got)
	if row := w.row(limit); got.Agents != 1 || row.Held != 7 || row.Spent != 0 {
		t.Errorf("%+v, %+v", got, row)
	}
	w.ok(events.AdminAgentRevoke, `{"org":"O","agent":"`+root+`","holds":"release"}`, &got)
	if row := w.row(limit); got.Agents != 2 || row.Held != 0 {
		t.Errorf("%+v, %+v", got, row)
	}
	live, err := w.store.Live(t.Context(), w.org, child)
	if err != nil || len(live) != 0 {
		t.Errorf("%v, %v", live, err)
	}
}

// TestRevokeLeavesAKnownOverrun: its cost is on the ledger, so release is
// denied for it as for anybody, and the others are released all the same.
func TestRevokeLeavesAKnownOverrun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	limit := w.pool("p", 100)
	a := w.agent("").Agent
	over := w.reserve(a, "over", limit, 5)
	w.reserve(a, "other", limit, 3)
	b := w.store.Batch()
	p := b.Settle(redisx.SettleArgs{
		Caller: budget.Agent{Org: w.org, ID: a}, Execution: over.Reservation, Key: "s", Fingerprint: "f",
		Actual: budget.Amounts{"tokens": 6}, Status: "success", Final: true,
	})
	b.Run(t.Context())
	if p.Err != nil || p.Decision.Outcome != budget.Refused {
		t.Fatalf("%+v, %v", p.Decision, p.Err)
	}
	w.ok(events.AdminAgentRevoke, `{"org":"O","agent":"`+a+`","holds":"release"}`, nil)
	if row := w.row(limit); row.Held != 5 {
		t.Errorf("%+v", row)
	}
}
