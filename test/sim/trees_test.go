package sim

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tallystick/internal/testkit"
	"tallystick/pkg/budget"
	"tallystick/pkg/redisx"
)

// Bounds of the trees: as deep as the registrar lets agents and pools nest.
const (
	depthMax     = 5
	poolDepthMax = 8
)

// rootPools are what operators made: three of the eight pools of a path, so
// that grants can fill the rest.
var (
	rootPools = map[string][]budget.LimitID{
		"org":  {limitID("org", "tok"), limitID("org", "usd")},
		"dept": {limitID("dept", "usd"), limitID("org", "tok"), limitID("org", "usd")},
		"team": {limitID("team", "tok"), limitID("team", "usd"), limitID("dept", "usd"), limitID("org", "tok"), limitID("org", "usd")},
	}
	rootSlots = map[string][]budget.Slot{
		"org":  {{Pool: "org", Pattern: "gpt*", Max: 3}},
		"dept": {{Pool: "org", Pattern: "gpt*", Max: 3}},
		"team": {{Pool: "team", Pattern: "*", Max: 2}, {Pool: "org", Pattern: "gpt*", Max: 3}},
	}
	registerKeys = []string{"r0", "r1", "r2", "r3"}
)

// forest is a world in which agents register agents.
type forest struct {
	*world
	ends map[string]int64 // of agents with a time to live
	born int              // ids issued
	turn int              // of the agents whose standing is checked
}

func TestTreesAgreeWithTheModel(t *testing.T) {
	t.Parallel()
	t.Logf("TALLY_SIM_SEED=%s TALLY_SIM_CHECKS=%s", flag.Lookup("rapid.seed").Value, flag.Lookup("rapid.checks").Value)
	server := newServer(t, testkit.Redis(t))
	rapid.Check(t, func(rt *rapid.T) {
		f := newForest(rt, server)
		rt.Repeat(map[string]func(*rapid.T){
			"":           f.check,
			"register":   f.register,
			"register 2": f.register,
			"register 3": f.register,
			"revoke":     f.revoke,
			"reserve":    f.reserve,
			"reserve 2":  f.reserve,
			"reserve 3":  f.reserve,
			"reserve 4":  f.reserve,
			"settle":     f.settle,
			"settle 2":   f.settle,
			"release":    f.release,
			"extend":     f.extend,
			"extend 2":   f.extendByTheDead,
			"charge":     f.charge,
			"repeat":     f.again,
			"wait":       f.pause,
			"reap":       f.reap,
			"policy":     f.policy,
			"state":      f.state,
			"lose":       f.lose,
		})
	})
	server.report(t, "registered", "granted", "registration replayed", "uncounted late", "closed", "denied period_closed",
		"refused revoked", "refused budget.caps", "refused children", "refused tree", "asked by the dead", "depth 5", "pools 8", "released by revocation", "denied pool_missing", budget.ErrUnavailable.Error())
}

func newForest(rt *rapid.T, s *server) *forest {
	f := &forest{world: newOrg(rt, s, rootPools, rootSlots, map[string]int64{"org": 1000, "dept": 500, "team": 300}), ends: map[string]int64{}}
	f.give(rt, birth{key: "first", childrenMax: 3, treeMax: 8})
	own := rapid.SampledFrom([]int{1, 0, 3}).Draw(rt, "own pools")                         // one in 2^n shares
	for range rapid.SampledFrom([]int{0, depthMax, 3, 1, depthMax, 2}).Draw(rt, "chain") { // deep trees are rare otherwise
		b := birth{parent: f.agents[len(f.agents)-1], key: fmt.Sprint("n", f.born), childrenMax: 3, treeMax: 8}
		if !chance(rt, "shares", own) {
			b.caps = budget.Amounts{"usd": 200}
		}
		f.give(rt, b)
	}
	return f
}

// revoke ends a subtree as the registrar does: the mark first; then, unless it
// crashed there, the places and perhaps the holds.
func (f *forest) revoke(rt *rapid.T) {
	if !chance(rt, "really", 1) {
		rt.Skip("seldom")
	}
	top := f.top(rt)
	if len(top.Ancestors) == 0 && !chance(rt, "a root", 2) {
		rt.Skip("roots seldom")
	}
	crashed, release := chance(rt, "crashed", 2), rapid.Bool().Draw(rt, "release")
	f.do(rt, "revoke", func(rt *rapid.T) {
		f.expect(f.model.Revoke(f.nowMS, top.ID))
		if err := f.store.Revoke(f.ctx, redisx.RevokeArgs{Agent: top, By: redisx.Operator}); err != nil {
			rt.Fatal(err)
		}
		if crashed {
			f.outcomes["uncounted late"]++
			return
		}
		subtree := slices.DeleteFunc(slices.Clone(f.agents), func(a budget.Agent) bool {
			return a.ID != top.ID && !slices.Contains(a.Ancestors, top.ID)
		})
		f.model.Uncount(top.ID)
		if err := f.store.Uncount(f.ctx, rootOf(top), subtree); err != nil {
			rt.Fatal(err)
		}
		for _, holder := range subtree {
			if release {
				f.releaseAll(rt, holder, top.ID)
			}
		}
	})
}

// top is often somebody with holds, or an ancestor of such.
func (f *forest) top(rt *rapid.T) budget.Agent {
	var holding []budget.Agent
	for _, execution := range f.known {
		if f.model.State(f.nowMS, execution) == budget.StateHeld {
			holder := f.agent(f.model.Holder(f.nowMS, execution))
			for _, a := range []budget.Agent{holder, f.settler[execution]} {
				for _, id := range a.Ancestors {
					holding = append(holding, f.agent(id))
				}
			}
			holding = append(holding, holder)
		}
	}
	if len(holding) == 0 || chance(rt, "any", 2) {
		holding = f.agents
	}
	return rapid.SampledFrom(holding).Draw(rt, "top")
}

func rootOf(a budget.Agent) string {
	if len(a.Ancestors) == 0 {
		return a.ID
	}
	return a.Ancestors[len(a.Ancestors)-1]
}

func (f *forest) releaseAll(rt *rapid.T, holder budget.Agent, top string) {
	live, err := f.store.Live(f.ctx, f.org, holder.ID)
	if err != nil {
		rt.Fatal(err)
	}
	for _, execution := range live {
		a := redisx.ReleaseArgs{
			Caller: holder, Operator: true, Execution: execution, Key: "revoke:" + top, Fingerprint: fingerprint(execution), Reason: "agent revoked",
		}
		b := f.store.Batch()
		p := b.Release(a)
		b.Run(f.ctx)
		want, entries, err := f.model.Release(f.nowMS, budget.ReleaseCall{
			Caller: a.Caller, Operator: true, Execution: execution, Key: a.Key, Fingerprint: a.Fingerprint,
		})
		f.expect(entries)
		f.compare(rt, a, p.Decision, p.Err, want, err)
		f.outcomes["released by revocation"]++
	}
}

// extendByTheDead: a named settler whose branch has ended asks for more, on a
// reservation of somebody who may still live.
func (f *forest) extendByTheDead(rt *rapid.T) {
	due := slices.DeleteFunc(slices.Clone(f.known), func(e string) bool {
		settler, named := f.settler[e]
		ended, _, _ := f.model.Standing(f.nowMS, settler)
		return !named || !ended || f.model.State(f.nowMS, e) != budget.StateHeld
	})
	if len(due) == 0 {
		rt.Skip("nobody is dead and named")
	}
	execution := rapid.SampledFrom(due).Draw(rt, "execution")
	f.extendBy(rt, execution, f.settler[execution], false, f.path(rt, f.pool(rt)))
	f.outcomes["asked by the dead"]++
}

// pause is mostly short: after a long one nobody with a time to live is left.
func (f *forest) pause(rt *rapid.T) {
	if chance(rt, "long", 2) {
		f.wait(rt)
		return
	}
	f.jump(rt, rapid.SampledFrom([]time.Duration{time.Second, 20 * time.Second, time.Minute}).Draw(rt, "pause"))
}

// policy changes the caps and rules of a pool that is not closed.
func (f *forest) policy(rt *rapid.T) {
	pool := f.pool(rt)
	if f.closed(pool) || !chance(rt, "really", 1) {
		rt.Skip("seldom, and never a closed one")
	}
	f.newRules(rt, pool)
}

func (f *forest) closed(pool string) bool {
	for _, p := range f.rules[pool] {
		return p.Closed
	}
	return false
}

// state freezes, unfreezes or closes a pool; what is closed stays so.
func (f *forest) state(rt *rapid.T) {
	pool := f.pool(rt)
	if f.closed(pool) || !chance(rt, "really", 1) {
		rt.Skip("seldom, and never a closed one")
	}
	rules := maps.Clone(f.rules[pool])
	closes := pool != "org" && chance(rt, "close", 2)
	freezes := chance(rt, "freeze", 3)
	for id, p := range rules {
		p.Closed, p.Frozen = closes, freezes && !closes
		rules[id] = p
	}
	if closes {
		f.outcomes["closed"]++
	}
	f.setPolicy(rt, pool, rules)
}

// check adds to the world's: who stands where, and what each agent holds.
func (f *forest) check(rt *rapid.T) {
	f.world.check(rt)
	for range 2 {
		f.turn = (f.turn + 1) % len(f.agents)
		f.checkStanding(rt, f.agents[f.turn])
	}
}

func (f *forest) checkStanding(rt *rapid.T, a budget.Agent) {
	got, err := f.store.Standing(f.ctx, a)
	if err != nil {
		rt.Fatal(err)
	}
	var want redisx.Standing
	want.Revoked, want.Children, want.Tree = f.model.Standing(f.nowMS, a)
	if got != want {
		rt.Fatalf("standing of %s: scripts %+v, model %+v", a.ID, got, want)
	}
	if got.Children > 4 || got.Tree > 12 {
		rt.Fatalf("standing of %s: above every limit: %+v", a.ID, got)
	}
	live, err := f.store.Live(f.ctx, f.org, a.ID)
	if err != nil {
		rt.Fatal(err)
	}
	held := slices.DeleteFunc(slices.Clone(f.known), func(e string) bool {
		return f.model.State(f.nowMS, e) != budget.StateHeld || f.model.Holder(f.nowMS, e) != a.ID
	})
	slices.Sort(held)
	if !slices.Equal(live, held) {
		rt.Fatalf("%s holds %v, model %v", a.ID, live, held)
	}
}
