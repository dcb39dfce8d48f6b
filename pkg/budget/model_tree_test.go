package budget

import (
	"fmt"
	"testing"
)

// register makes an agent below others, named from its parent up.
func (b *bench) register(now int64, id string, ancestors []string, change func(*RegisterCall)) string {
	b.t.Helper()
	c := RegisterCall{
		Agent: Agent{Org: "acme", ID: id, Ancestors: ancestors}, Execution: "r " + id, Fingerprint: "f", ChildrenMax: 2, TreeMax: 4,
	}
	if change != nil {
		change(&c)
	}
	birth, es, err := b.Register(now, c)
	b.took(es)
	switch {
	case err != nil:
		return err.Error()
	case birth.Replayed:
		return "again: " + birth.Agent
	case birth.Limit != LimitID{}:
		return fmt.Sprint(birth.Refused, " ", birth.Limit.Pool, " ", birth.Limit.Unit)
	case birth.Refused != "":
		return string(birth.Refused)
	}
	return birth.Agent
}

// grants asks for a pool of its own below team.
func grants(n int64) func(*RegisterCall) {
	return func(c *RegisterCall) {
		c.Path = asPath([]LimitID{teamUSD, rootUSD})
		c.Made = []MadeLimit{{LimitID{"own", "usd", PeriodNone}, LimitPolicy{MaxTotal: n, Rev: 1}}}
	}
}

func ends(at int64) func(*RegisterCall) { return func(c *RegisterCall) { c.EndMS = at } }

// family is a, with b and c below it, and d below b: the tree is full.
func family(b *bench) {
	b.register(t0, "a", nil, nil)
	b.register(t0, "b", []string{"a"}, nil)
	b.register(t0, "c", []string{"a"}, ends(t0+minute))
	b.register(t0, "d", []string{"b", "a"}, nil)
}

// One row per outcome, in order of precedence: "e" is born below b.
func TestModelRegister(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name   string
		before func(*bench)
		change func(*RegisterCall)
		want   string
	}{
		{"fenced", func(b *bench) { b.Fence() }, nil, "unavailable"},
		{"repeat, below a revoked one meanwhile", func(b *bench) {
			b.Revoke(t0, "c")
			b.register(t0, "e", []string{"b", "a"}, nil)
			b.Revoke(t0, "a")
		}, nil, "again: e"},
		{"other content", func(b *bench) {
			b.Revoke(t0, "c")
			b.register(t0, "e", []string{"b", "a"}, nil)
		}, func(c *RegisterCall) { c.Fingerprint = "g" }, "idempotency key reused with other content"},
		{"below a revoked root", func(b *bench) { b.Revoke(t0, "a") }, grants(1000), "revoked"},
		{"below one that has ended", func(b *bench) { b.ends["b"] = t0 }, nil, "revoked"},
		{"stale before missing", func(b *bench) { b.LoseLimit(teamUSD) }, func(c *RegisterCall) {
			grants(1000)(c)
			c.Path[1].Rev = 7
		}, "stale policy"},
		{"missing before the grant", func(b *bench) { b.LoseLimit(rootUSD) }, grants(1000), "unavailable"},
		{"more than remains of the pool", nil, grants(101), "budget.caps team usd"},
		{"more than remains of its root", func(b *bench) { b.policy(rootUSD, LimitPolicy{MaxTotal: 50}) }, grants(51), "budget.caps root usd"},
		{"children before tree", func(b *bench) {
			b.Revoke(t0, "c")
			b.register(t0, "x", []string{"b", "a"}, nil)
		}, nil, "children"},
		{"tree", nil, nil, "tree"},
		{"a revoked one gives its place in the tree back", func(b *bench) { b.Revoke(t0, "d") }, nil, "e"},
		{"up to what remains", func(b *bench) { b.Revoke(t0, "c") }, grants(100), "e"},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			family(b)
			if r.before != nil {
				r.before(b)
			}
			b.expect("register", b.register(t0, "e", []string{"b", "a"}, r.change), r.want)
		})
	}
}

// TestModelStanding: who counts, and who has ended.
func TestModelStanding(t *testing.T) {
	t.Parallel()
	standing := func(b *bench, now int64, id string, ancestors ...string) string {
		ended, children, tree := b.Standing(now, Agent{Org: "acme", ID: id, Ancestors: ancestors})
		return fmt.Sprint(ended, " ", children, " ", tree)
	}
	b := newBench(t)
	family(b)
	b.expect("a at first", standing(b, t0, "a"), "false 2 4")
	b.expect("a after c's time", standing(b, t0+minute, "a"), "false 1 3")
	b.expect("c before", standing(b, t0+minute-1, "c", "a"), "false 0 4")
	b.expect("c after", standing(b, t0+minute, "c", "a"), "true 0 3")
	b.took(b.Revoke(t0, "b"))
	b.expect("d below b", standing(b, t0, "d", "b", "a"), "true 0 3")
	b.expect("b still has d", standing(b, t0, "b", "a"), "true 1 3")
	b.Uncount("b")
	b.expect("b once told", standing(b, t0, "b", "a"), "true 0 2")
	if again := b.Revoke(t0+1, "b"); again != nil {
		t.Errorf("revoked twice: %+v", again)
	}
	if gone := b.ForgottenRegistrations(t0 + ResolvedKept.Milliseconds()); len(gone) != 4 {
		t.Errorf("forgotten: %v", gone)
	}
}
