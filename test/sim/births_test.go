package sim

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"tallystick/pkg/budget"
	"tallystick/pkg/redisx"
)

// birth is a registration as it is asked for. The broker adds the rest.
type birth struct {
	parent               budget.Agent // of no id: an operator asks
	key                  string
	caps                 budget.Amounts // nil: it shares
	ttl                  time.Duration
	epsilon              int64
	childrenMax, treeMax int64
	stale                bool
}

func (f *forest) register(rt *rapid.T) {
	b := birth{
		key:         rapid.SampledFrom(registerKeys).Draw(rt, "key"),
		ttl:         rapid.SampledFrom([]time.Duration{0, 0, 0, 0, 0, time.Second, time.Minute, 2 * time.Hour}).Draw(rt, "ttl"),
		childrenMax: rapid.Int64Range(2, 4).Draw(rt, "children"), treeMax: rapid.SampledFrom([]int64{12, 8, 4}).Draw(rt, "tree"),
		stale: chance(rt, "stale", 5),
	}
	if !chance(rt, "a used key", 2) {
		b.key = fmt.Sprint("n", f.born)
	}
	if !chance(rt, "root", 4) {
		b.parent = f.parent(rt)
	}
	if home, ok := f.homes[b.parent.ID]; ok && rapid.Bool().Draw(rt, "granted") && poolsOf(f.paths[home]) < poolDepthMax {
		b.caps, b.epsilon = f.grant(rt, home), rapid.SampledFrom([]int64{0, 5}).Draw(rt, "epsilon")
	}
	f.do(rt, "register", func(rt *rapid.T) { f.give(rt, b) })
}

// parent is often the newest agent, so that trees grow deep.
func (f *forest) parent(rt *rapid.T) budget.Agent {
	can := slices.DeleteFunc(slices.Clone(f.agents), func(a budget.Agent) bool { return len(a.Ancestors) >= depthMax })
	if rapid.Bool().Draw(rt, "deeper") {
		return can[len(can)-1]
	}
	return rapid.SampledFrom(can).Draw(rt, "parent")
}

// grant asks for caps in one or all units of a path.
func (f *forest) grant(rt *rapid.T, home string) budget.Amounts {
	caps := budget.Amounts{}
	for unit := range amountsOn(rt, f.path(rt, home), 1) {
		caps[unit] = rapid.SampledFrom([]int64{200, 50, 20, 400, 1}).Draw(rt, "cap")
	}
	if len(caps) > 1 && rapid.Bool().Draw(rt, "one unit") {
		delete(caps, "tok")
	}
	return caps
}

func poolsOf(path []budget.LimitID) int {
	pools := map[string]bool{}
	for _, id := range path {
		pools[id.Pool] = true
	}
	return len(pools)
}

// give registers as the registrar does: id, place in the tree and end are the
// broker's, and nobody outlives its parent.
func (f *forest) give(rt *rapid.T, b birth) {
	f.born++
	id := fmt.Sprintf("%s-%d", f.org, f.born)
	a := redisx.RegisterArgs{
		Registration: redisx.Registration{Org: f.org, Agent: id, Name: "n", Root: id, Pool: "team", CreatedAtMS: f.nowMS, Granted: b.caps},
		ChildrenMax:  b.childrenMax, TreeMax: b.treeMax,
	}
	asking := redisx.Operator
	if b.ttl > 0 {
		a.ExpiresAtMS = f.nowMS + b.ttl.Milliseconds()
	}
	if p := b.parent; p.ID != "" {
		asking = p.ID
		a.Ancestors = append([]string{p.ID}, p.Ancestors...)
		a.Parent, a.Root, a.Depth, a.Pool = p.ID, a.Ancestors[len(p.Ancestors)], len(a.Ancestors), f.homes[p.ID]
		if end := f.ends[p.ID]; end > 0 && (a.ExpiresAtMS == 0 || end < a.ExpiresAtMS) {
			a.ExpiresAtMS = end
		}
	}
	a.Fingerprint = fingerprint(b.caps, b.ttl)
	a.Execution = redisx.ExecutionID(f.org, asking, "register", b.key)
	call := budget.RegisterCall{
		Agent: budget.Agent{Org: f.org, ID: id, Ancestors: a.Ancestors}, Execution: a.Execution, Fingerprint: a.Fingerprint,
		EndMS: a.ExpiresAtMS, ChildrenMax: a.ChildrenMax, TreeMax: a.TreeMax,
	}
	rules := f.granted(b, &a, &call)
	got, replayed, gotErr := f.store.Register(f.ctx, a)
	want, entries, wantErr := f.model.Register(f.nowMS, call)
	f.expect(entries)
	f.compareBirth(rt, a, answered(got, replayed, gotErr), answer{want.Agent, want.Replayed, want.Refused, want.Limit, reasonOf(wantErr)})
	if wantErr == nil && want.Refused == "" && !want.Replayed {
		f.settleIn(rt, call.Agent, a, rules)
	}
}

// granted adds the pool that is asked for to both calls.
func (f *forest) granted(b birth, a *redisx.RegisterArgs, call *budget.RegisterCall) map[budget.LimitID]budget.LimitPolicy {
	if b.caps == nil {
		return nil
	}
	for _, id := range f.paths[a.Pool] {
		if _, ok := b.caps[id.Unit]; ok {
			rev := f.revs[id.Pool]
			if b.stale && id.Pool == "org" {
				rev--
			}
			a.Path = append(a.Path, budget.Limit{LimitID: id, Rev: rev})
		}
	}
	a.PoolParent, a.Pool = a.Pool, "agent:"+a.Agent
	call.Path = a.Path
	rules := map[budget.LimitID]budget.LimitPolicy{}
	for _, unit := range slices.Sorted(maps.Keys(b.caps)) {
		id, p := limitID(a.Pool, unit), budget.LimitPolicy{MaxTotal: b.caps[unit], Epsilon: b.epsilon, LateWindowMS: 2 * time.Hour.Milliseconds(), Rev: 1}
		rules[id] = p
		call.Made = append(call.Made, budget.MadeLimit{LimitID: id, LimitPolicy: p})
		a.Made = append(a.Made, redisx.PolicyLimit{
			Unit: unit, Period: id.Period, Cap: p.MaxTotal, Epsilon: p.Epsilon, LateWindowMS: p.LateWindowMS, OnOverrun: "reject", State: "open",
		})
	}
	return rules
}

// settleIn keeps what a new agent is and draws on.
func (f *forest) settleIn(rt *rapid.T, agent budget.Agent, a redisx.RegisterArgs, rules map[budget.LimitID]budget.LimitPolicy) {
	f.mustLive(rt, a, true, budget.Agent{ID: a.Root, Ancestors: a.Ancestors})
	f.agents = append(f.agents, agent)
	f.homes[agent.ID], f.ends[agent.ID] = a.Pool, a.ExpiresAtMS
	f.outcomes[fmt.Sprint("depth ", len(agent.Ancestors))]++
	if rules == nil {
		return
	}
	f.checkMade(rt, rules)
	own := slices.SortedFunc(maps.Keys(rules), func(x, y budget.LimitID) int { return strings.Compare(x.Unit, y.Unit) })
	f.paths[a.Pool] = append(own, f.paths[a.PoolParent]...)
	f.slots[a.Pool], f.revs[a.Pool], f.rules[a.Pool] = f.slots[a.PoolParent], 1, rules
	f.outcomes["granted"]++
	f.outcomes[fmt.Sprint("pools ", poolsOf(f.paths[a.Pool]))]++
}

// checkMade: the hash of a granted pool's limit is as it was asked for, which
// its counters do not show.
func (f *forest) checkMade(rt *rapid.T, rules map[budget.LimitID]budget.LimitPolicy) {
	for id, p := range rules {
		got, err := f.client.HGetAll(f.ctx, f.limitKey(id)).Result()
		want := map[string]string{
			"cap": fmt.Sprint(p.MaxTotal), "adj": "0", "held": "0", "spent": "0", "withheld": "0", "rev": "1", "state": "open",
			"opens": "0", "closes": "0", "epsilon": fmt.Sprint(p.Epsilon), "on_overrun": "reject", "late_window": fmt.Sprint(p.LateWindowMS),
		}
		if err != nil || !maps.Equal(got, want) {
			rt.Fatalf("%s %s was made as %v, want %v; %v", id.Pool, id.Unit, got, want, err)
		}
	}
}

// answer is what both sides must agree on about a registration.
type answer struct {
	Agent    string
	Replayed bool
	Refused  budget.AgentRefusal
	Limit    budget.LimitID
	Err      string
}

func answered(r redisx.Registration, replayed bool, err error) answer {
	var limit *redisx.AgentLimit
	switch {
	case errors.As(err, &limit):
		return answer{Refused: budget.AgentRefusal(limit.Field), Limit: limit.Limit}
	case errors.Is(err, redisx.ErrRevoked):
		return answer{Refused: budget.BirthRevoked}
	case err != nil:
		return answer{Err: reason(err)}
	}
	return answer{Agent: r.Agent, Replayed: replayed}
}

func reasonOf(err error) string {
	if err == nil {
		return ""
	}
	return reason(err)
}

func (f *forest) compareBirth(rt *rapid.T, a redisx.RegisterArgs, got, want answer) {
	if got != want {
		rt.Fatalf("register disagrees: scripts %+v, model %+v\nrequest %+v", got, want, a)
	}
	switch {
	case want.Err != "":
		f.outcomes[want.Err]++
	case want.Refused != "":
		f.outcomes["refused "+string(want.Refused)]++
	case want.Replayed:
		f.outcomes["registration replayed"]++
	default:
		f.outcomes["registered"]++
	}
}
