package redisx

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"tallystick/pkg/budget"
)

// family registers agents of one tree and remembers the last of each name.
type family struct {
	*bench
	ids map[string]Registration
}

func newFamily(b *bench) *family { return &family{b, map[string]Registration{}} }

// register makes an agent under the named one, and says how that went.
func (f *family) register(name, parent string, change ...func(*RegisterArgs)) string {
	f.Helper()
	id := uuid.NewString()
	a := RegisterArgs{
		Registration: Registration{Org: f.org, Agent: id, Name: name, Root: id, Pool: "p", CreatedAtMS: f.nowMS},
		ChildrenMax:  2, TreeMax: 4,
	}
	if p, ok := f.ids[parent]; ok {
		a.Parent, a.Root, a.Depth = p.Agent, p.Root, p.Depth+1
		a.Ancestors = append([]string{p.Agent}, p.Ancestors...)
	}
	for _, c := range change {
		c(&a)
	}
	r, replayed, err := f.store.Register(f.Context(), a)
	var limit *AgentLimit
	switch {
	case errors.As(err, &limit):
		return "limit " + limit.Field + limit.Limit.Pool
	case errors.Is(err, ErrRevoked):
		return "revoked"
	case err != nil:
		return told(budget.Decision{}, err)
	}
	f.ids[name] = r
	if replayed {
		return fmt.Sprint("replayed ", r.Agent != id)
	}
	return "ok"
}

func (f *family) end(name string) {
	f.Helper()
	r := f.ids[name]
	f.bench.revoke(budget.Agent{Org: f.org, ID: r.Agent, Ancestors: r.Ancestors})
}

func (f *family) under(name string) budget.Agent {
	r := f.ids[name]
	return budget.Agent{Org: f.org, ID: r.Agent, Ancestors: r.Ancestors}
}

func (f *family) standing(name string) string {
	f.Helper()
	s, err := f.store.Standing(f.Context(), f.under(name))
	if err != nil {
		f.Fatal(err)
	}
	return fmt.Sprint(" ", s)
}

func lives(d time.Duration) func(*RegisterArgs) {
	return func(a *RegisterArgs) { a.ExpiresAtMS = a.CreatedAtMS + d.Milliseconds() }
}

func keyed(key, fingerprint string) func(*RegisterArgs) {
	return func(a *RegisterArgs) {
		a.Execution, a.Fingerprint = ExecutionID(a.Org, "x", "register", key), fingerprint
	}
}

// granted asks for a pool of its own below a limit.
func granted(n int64, path ...budget.Limit) func(*RegisterArgs) {
	return func(a *RegisterArgs) {
		unit := path[0].Unit
		a.PoolParent, a.Pool, a.Granted = path[0].Pool, "g"+a.Agent, budget.Amounts{unit: n}
		a.Made = []PolicyLimit{{Unit: unit, Period: budget.PeriodNone, Cap: n, OnOverrun: "reject", State: "open", LateWindowMS: 1000}}
		a.Path = path
	}
}

func TestRegister(t *testing.T) {
	t.Parallel()
	runRows(t, []row{
		{"a root", func(b *bench) string { return newFamily(b).register("a", "") }, "ok", "tree 1; entries agent_registered"},
		{
			"children up to the limit, then one more after one has ended", func(b *bench) string {
				f := newFamily(b)
				out := f.register("a", "") + " " + f.register("b", "a") + " " + f.register("c", "a") + " " + f.register("d", "a")
				f.end("b")
				return out + " " + f.register("d", "a")
			}, "ok ok ok limit children ok", "children 2; tree 3; entries agent_registered agent_registered agent_registered agent_revoked agent_registered",
		},
		{
			"a tree up to the limit", func(b *bench) string {
				f := newFamily(b)
				return f.register("a", "") + f.register("b", "a") + f.register("c", "b") + f.register("d", "c") + " " + f.register("e", "d")
			}, "okokokok limit tree", "children 1; children 1; children 1; tree 4; entries agent_registered agent_registered agent_registered agent_registered",
		},
		{
			"who has ended by itself no longer counts, and cannot have children", func(b *bench) string {
				f := newFamily(b)
				out := f.register("a", "") + f.register("b", "a", lives(time.Second)) + f.register("c", "a", lives(time.Second))
				b.advance(time.Second)
				return out + f.register("d", "a") + " " + f.register("e", "b")
			}, "okokokok revoked", "children 1; tree 2; entries agent_registered agent_registered agent_registered agent_registered",
		},
		{
			"under a revoked ancestor", func(b *bench) string {
				f := newFamily(b)
				out := f.register("a", "") + f.register("b", "a")
				f.end("a")
				return out + " " + f.register("c", "b")
			}, "okok revoked", "children 1; tree 1; entries agent_registered agent_registered agent_revoked",
		},
		{
			"the same key again", func(b *bench) string {
				f := newFamily(b)
				return f.register("a", "", keyed("k", "f")) + ", " + f.register("a", "", keyed("k", "f")) + ", " + f.register("a", "", keyed("k", "g"))
			}, "ok, replayed true, " + budget.ErrKeyReused.Error(), "tree 1; entries agent_registered",
		},
		{
			"standing, as one agent ends by itself and one is revoked", func(b *bench) string {
				f := newFamily(b)
				out := f.register("a", "") + f.register("b", "a", lives(time.Second)) + f.register("c", "a")
				out += f.standing("a") + f.standing("b")
				b.advance(time.Second)
				out += f.standing("a") + f.standing("b")
				f.end("a")
				return out + f.standing("a") + f.standing("c")
			}, "okokok {false 2 3} {false 0 3} {false 1 2} {true 0 2} {true 1 1} {true 0 1}",
			"children 2; tree 2; entries agent_registered agent_registered agent_registered agent_revoked", // who has ended is swept by the next registration
		},
		{
			"revoked twice", func(b *bench) string {
				f := newFamily(b)
				out := f.register("a", "")
				f.end("a")
				f.end("a")
				return out
			}, "ok", "entries agent_registered agent_revoked",
		},
		{"fenced", func(b *bench) string {
			defer b.fence()()
			f := newFamily(b)
			err := b.store.Revoke(b.Context(), RevokeArgs{Agent: b.agent, By: Operator})
			return f.register("a", "") + ", " + told(budget.Decision{}, err)
		}, "unavailable, unavailable", "entries "},
	})
}

func TestGrant(t *testing.T) {
	t.Parallel()
	runRows(t, []row{
		{
			"up to what remains", func(b *bench) string {
				f, p := newFamily(b), b.pool("p", PolicyLimit{Cap: 100})
				b.hold(30, p)
				out := f.register("a", "", granted(71, p)) + ", " + f.register("a", "", granted(70, p))
				b.lawful(budget.Limit{LimitID: budget.LimitID{Pool: f.ids["a"].Pool, Unit: p.Unit, Period: p.Period}}, p)
				return out
			}, "limit budget.capsp, ok",
			"expiring +60000; g cap 70 held 0 spent 0 withheld 0; live 1; opened g; opened p; p cap 100 held 30 spent 0 withheld 0; record held; tree 1; entries policy_changed reserved policy_changed agent_registered",
		},
		{
			"no more than remains anywhere on the path", func(b *bench) string {
				f, p, r := newFamily(b), b.pool("p", PolicyLimit{Cap: 100}), b.pool("r", PolicyLimit{Cap: 50})
				return f.register("a", "", granted(51, p, r))
			}, "limit budget.capsr",
			"opened p; opened r; p cap 100 held 0 spent 0 withheld 0; r cap 50 held 0 spent 0 withheld 0; entries policy_changed policy_changed",
		},
		{
			"under an old picture of the parent", func(b *bench) string {
				f, p := newFamily(b), b.pool("p", PolicyLimit{Cap: 100})
				p.Rev = 6
				return f.register("a", "", granted(1, p))
			}, budget.ErrStalePolicy.Error(), "opened p; p cap 100 held 0 spent 0 withheld 0; entries policy_changed",
		},
		{
			"under an old picture of the root, and more than remains of the parent", func(b *bench) string {
				f, p, r := newFamily(b), b.pool("p", PolicyLimit{Cap: 100}), b.pool("r", PolicyLimit{Cap: 100})
				r.Rev = 6
				return f.register("a", "", granted(101, p, r))
			}, budget.ErrStalePolicy.Error(),
			"opened p; opened r; p cap 100 held 0 spent 0 withheld 0; r cap 100 held 0 spent 0 withheld 0; entries policy_changed policy_changed",
		},
		{
			"under a limit that is gone", func(b *bench) string {
				f, p := newFamily(b), b.pool("p", PolicyLimit{Cap: 100})
				b.drop(p)
				return f.register("a", "", granted(1, p))
			}, "unavailable", "opened p; entries policy_changed",
		},
	})
}

// TestEndedByItself: a time to live ends the whole subtree, for every script
// that takes money, and for none that gives it back.
func TestEndedByItself(t *testing.T) {
	t.Parallel()
	runRows(t, []row{{
		"reserve, add and charge are denied, settle is not", func(b *bench) string {
			f, p := newFamily(b), b.pool("p", PolicyLimit{Cap: 100})
			out := f.register("a", "", lives(30*time.Second)) + f.register("b", "a") + " "
			b.agent = f.under("b")
			h := b.hold(10, p)
			b.advance(29 * time.Second)
			out += told(b.reserve(b.reserveArgs("before", 1, p))) + ", "
			b.advance(time.Second)
			out += told(b.reserve(b.reserveArgs("after", 1, p))) + ", "
			out += told(b.settle(b.settleArgs(h, 10)))
			return out
		}, "okok allowed, denied revoked, settled charged usd_microcents=10 returned usd_microcents=0",
		"children 1; expiring +59000; live 1; opened p; p cap 100 held 1 spent 10 withheld 0; record denied 1h; record held; record settled 24h; tree 2; entries policy_changed agent_registered agent_registered reserved reserved settled",
	}})
}

// TestRegisterUnderFire: two hundred at once, and the limits hold.
func TestRegisterUnderFire(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	f := newFamily(b)
	if out := f.register("a", ""); out != "ok" {
		t.Fatal(out)
	}
	parent := f.ids["a"]
	results := make(chan string, 200)
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			id := uuid.NewString()
			_, _, err := b.store.Register(t.Context(), RegisterArgs{
				Registration: Registration{
					Org: b.org, Agent: id, Name: "n", Parent: parent.Agent, Ancestors: []string{parent.Agent}, Root: parent.Root, Depth: 1, Pool: "p",
				},
				ChildrenMax: 7, TreeMax: 100,
			})
			var limit *AgentLimit
			switch {
			case err == nil:
				results <- "ok"
			case errors.As(err, &limit):
				results <- limit.Field
			default:
				results <- err.Error()
			}
		})
	}
	all.Wait()
	close(results)
	counts := map[string]int{}
	for r := range results {
		counts[r]++
	}
	standing, err := b.store.Standing(t.Context(), budget.Agent{Org: b.org, ID: parent.Agent})
	if counts["ok"] != 7 || counts["children"] != 193 || err != nil || standing.Children != 7 || standing.Tree != 8 {
		t.Errorf("%v; %+v, %v", counts, standing, err)
	}
}
