package sim

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"tallystick/pkg/budget"
	"tallystick/pkg/redisx"
)

// Few keys, so that they meet each other.
var (
	reserveKeys = []string{"k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7"}
	otherKeys   = []string{"x0", "x1", "x2"}
)

// fingerprint is what the wire layer makes of a request's content.
func fingerprint(content ...any) string {
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Append(nil, content...)))[:32]
}

// own is an agent of the org, mostly one that lives.
func (w *world) own(rt *rapid.T) budget.Agent {
	alive := slices.DeleteFunc(slices.Clone(w.agents), func(a budget.Agent) bool {
		ended, _, _ := w.model.Standing(w.nowMS, a)
		return ended
	})
	if len(alive) > 0 && !chance(rt, "ended too", 3) {
		return rapid.SampledFrom(alive).Draw(rt, "agent")
	}
	return rapid.SampledFrom(w.agents).Draw(rt, "agent")
}

// agent is who has an id; nobody where nobody has it.
func (w *world) agent(id string) budget.Agent {
	if i := slices.IndexFunc(w.agents, func(a budget.Agent) bool { return a.ID == id }); i >= 0 {
		return w.agents[i]
	}
	return budget.Agent{}
}

// caller is mostly the holder or the named settler, sometimes anybody; seldom
// an operator.
func (w *world) caller(rt *rapid.T, holder budget.Agent, execution string) (budget.Agent, bool) {
	settler, named := w.settler[execution]
	switch {
	case named && chance(rt, "settler", 1):
		return settler, false
	case chance(rt, "anybody", 3):
		return rapid.SampledFrom(append(slices.Clone(w.agents), w.spy)).Draw(rt, "caller"), false
	case chance(rt, "operator", 3):
		return budget.Agent{Org: w.org, ID: holder.ID}, true
	case len(holder.Ancestors) > 0 && chance(rt, "ancestor", 2):
		return w.agent(holder.Ancestors[0]), false
	}
	return holder, false
}

// target is an execution that may exist, with its holder and a guess of path.
func (w *world) target(rt *rapid.T) (execution string, holder budget.Agent, guess []budget.Limit) {
	holder = w.own(rt)
	execution = redisx.ExecutionID(w.org, holder.ID, "reserve", rapid.SampledFrom(reserveKeys).Draw(rt, "reservation"))
	from := w.known
	if !chance(rt, "resolved too", 2) { // mostly one that can still be resolved
		from = slices.DeleteFunc(slices.Clone(from), func(e string) bool {
			return !slices.Contains([]budget.State{budget.StateHeld, budget.StateExpired, budget.StateLapsed}, w.model.State(w.nowMS, e))
		})
	}
	if len(from) > 0 && !chance(rt, "any", 3) {
		execution = rapid.SampledFrom(from).Draw(rt, "execution")
		if id := w.model.Holder(w.nowMS, execution); id != "" {
			holder = w.agent(id)
		}
	}
	return execution, holder, w.path(rt, w.pool(rt))
}

// chance is true once in 2^bits. rapid's ranges favour small numbers; coins
// are fair, and shrink towards what is usual.
func chance(rt *rapid.T, what string, bits int) bool {
	all := true
	for range bits {
		all = rapid.Bool().Draw(rt, what) && all
	}
	return all
}

func (w *world) touch(execution string) {
	if !slices.Contains(w.known, execution) {
		w.known = append(w.known, execution)
	}
}

func amountsOn(rt *rapid.T, path []budget.Limit, least int64) budget.Amounts {
	a := budget.Amounts{}
	for _, l := range path {
		if _, ok := a[l.Unit]; !ok {
			a[l.Unit] = max(least, rapid.SampledFrom([]int64{0, 1, 3, 10, 12, 20, 100}).Draw(rt, l.Unit))
		}
	}
	return a
}

func (w *world) notAfter(rt *rapid.T) time.Time {
	switch {
	case chance(rt, "late", 5):
		return time.UnixMilli(w.nowMS - 1)
	case chance(rt, "not after", 3):
		return time.UnixMilli(w.nowMS + 30_000)
	}
	return time.Time{}
}

func (w *world) reserve(rt *rapid.T) {
	agent := w.own(rt)
	pool := w.poolOf(rt, agent)
	a := redisx.ReserveArgs{
		Agent: agent, Path: w.path(rt, pool), NotAfter: w.notAfter(rt),
		TTL:    rapid.SampledFrom([]time.Duration{time.Second, time.Minute, 10 * time.Minute}).Draw(rt, "ttl"),
		DryRun: chance(rt, "dry run", 4),
	}
	key := rapid.SampledFrom(reserveKeys).Draw(rt, "key")
	a.Amounts = amountsOn(rt, a.Path, 1)
	if chance(rt, "ceiling", 4) {
		for i := range a.Path {
			if a.Path[i].Pool == pool {
				a.Path[i].Ceiling = 30
			}
		}
	}
	if rapid.Bool().Draw(rt, "target") {
		a.Target, a.Slots = "gpt-5", w.slots[pool]
	}
	if chance(rt, "settler", 1) {
		settler := w.own(rt)
		a.Settler = settler.ID
	}
	a.Fingerprint = fingerprint(pool, a.Amounts, a.TTL, a.Target, a.Settler, a.Path[0].Ceiling)
	a.Extra.Key = key
	if !a.DryRun {
		a.Execution = redisx.ExecutionID(w.org, a.Agent.ID, "reserve", key)
	}
	w.do(rt, "reserve", func(rt *rapid.T) {
		b := w.store.Batch()
		p := b.Reserve(a)
		b.Run(w.ctx)
		want, entries, err := w.model.Reserve(w.nowMS, budget.ReserveCall{
			Agent: a.Agent, Execution: a.Execution, Fingerprint: a.Fingerprint, Settler: a.Settler, Amounts: a.Amounts,
			TTL: a.TTL, Path: a.Path, Slots: a.Slots, NotAfter: a.NotAfter, DryRun: a.DryRun,
		})
		w.expect(entries)
		w.compare(rt, a, p.Decision, p.Err, want, err)
		if !a.DryRun {
			w.touch(a.Execution)
			if want.Outcome == budget.Allowed && !want.Replayed && a.Settler != "" {
				w.settler[a.Execution] = w.agent(a.Settler)
			}
		}
	})
}

func (w *world) settle(rt *rapid.T) {
	execution, holder, guess := w.target(rt)
	a := redisx.SettleArgs{
		Execution: execution, Guess: guess, Key: rapid.SampledFrom(otherKeys).Draw(rt, "key"),
		Status: rapid.SampledFrom([]string{"success", "failure", "unknown"}).Draw(rt, "status"),
		Final:  !chance(rt, "not final", 3),
	}
	a.Caller, a.Operator = w.caller(rt, holder, execution)
	if !chance(rt, "no actual", 2) {
		a.Actual = budget.Amounts{"usd": rapid.SampledFrom([]int64{0, 1, 9, 10, 13, 15, 17, 45, 200}).Draw(rt, "usd")}
		if rapid.Bool().Draw(rt, "with tokens") {
			a.Actual["tok"] = rapid.SampledFrom([]int64{1, 3, 10, 12, 14}).Draw(rt, "tok")
		}
		if chance(rt, "stray unit", 4) {
			a.Actual["ms"] = 1
		}
	}
	if v := rapid.IntRange(0, 2).Draw(rt, "dispatched"); v > 0 {
		dispatched := v == 1
		a.Dispatched = &dispatched
	}
	said := "-"
	if a.Dispatched != nil {
		said = fmt.Sprint(*a.Dispatched)
	}
	a.Fingerprint = fingerprint(execution, a.Actual, a.Status, said, a.Final)
	w.do(rt, "settle", func(rt *rapid.T) {
		b := w.store.Batch()
		p := b.Settle(a)
		b.Run(w.ctx)
		before := w.model.State(w.nowMS, execution)
		want, entries, err := w.model.Settle(w.nowMS, budget.SettleCall{
			Caller: a.Caller, Operator: a.Operator, Execution: execution, Key: a.Key, Fingerprint: a.Fingerprint,
			Actual: a.Actual, Status: a.Status, Dispatched: a.Dispatched, Final: a.Final,
		})
		// A late settle is always booked; an overrun that a limit charges too.
		w.mayPass = w.mayPass || before != budget.StateHeld || len(want.Overrun) > 0 && w.charges()
		w.expect(entries)
		w.compare(rt, a, p.Decision, p.Err, want, err)
		w.touch(execution)
	})
}

// charges: some limit books overruns above its cap.
func (w *world) charges() bool {
	return slices.ContainsFunc(w.model.Limits(), func(id budget.LimitID) bool {
		p, _ := w.model.Policy(id)
		return p.ChargeOver
	})
}

func (w *world) release(rt *rapid.T) {
	execution, holder, guess := w.target(rt)
	a := redisx.ReleaseArgs{Execution: execution, Guess: guess, Key: rapid.SampledFrom(otherKeys).Draw(rt, "key")}
	a.Caller, a.Operator = w.caller(rt, holder, execution)
	for _, key := range reserveKeys { // by key, where it is the caller's own
		a.ByKey = a.ByKey || !a.Operator && execution == redisx.ExecutionID(w.org, a.Caller.ID, "reserve", key)
	}
	a.Reason = rapid.SampledFrom([]string{"", "changed my mind"}).Draw(rt, "reason")
	a.Fingerprint = fingerprint(execution, a.Reason)
	w.do(rt, "release", func(rt *rapid.T) {
		b := w.store.Batch()
		p := b.Release(a)
		b.Run(w.ctx)
		want, entries, err := w.model.Release(w.nowMS, budget.ReleaseCall{
			Caller: a.Caller, Operator: a.Operator, Execution: execution, Key: a.Key, Fingerprint: a.Fingerprint, ByKey: a.ByKey,
		})
		w.expect(entries)
		w.compare(rt, a, p.Decision, p.Err, want, err)
		w.touch(execution)
	})
}

func (w *world) extend(rt *rapid.T) {
	execution, holder, guess := w.target(rt)
	caller, operator := w.caller(rt, holder, execution)
	w.extendBy(rt, execution, caller, operator, guess)
}

func (w *world) extendBy(rt *rapid.T, execution string, caller budget.Agent, operator bool, guess []budget.Limit) {
	a := redisx.ExtendArgs{
		Caller: caller, Operator: operator,
		Execution: execution, Guess: guess, Key: rapid.SampledFrom(otherKeys).Draw(rt, "key"), NotAfter: w.notAfter(rt),
		TTL: rapid.SampledFrom([]time.Duration{0, time.Minute, time.Hour}).Draw(rt, "ttl"),
	}
	if a.TTL == 0 || rapid.Bool().Draw(rt, "add") {
		a.Add = budget.Amounts{rapid.SampledFrom([]string{"usd", "tok", "ms"}).Draw(rt, "unit"): rapid.SampledFrom([]int64{1, 5, 70}).Draw(rt, "n")}
	}
	a.Fingerprint = fingerprint(execution, a.TTL, a.Add)
	w.do(rt, "extend", func(rt *rapid.T) {
		b := w.store.Batch()
		p := b.Extend(a)
		b.Run(w.ctx)
		want, entries, err := w.model.Extend(w.nowMS, budget.ExtendCall{
			Caller: a.Caller, Operator: a.Operator, Execution: execution, Key: a.Key, Fingerprint: a.Fingerprint,
			TTL: a.TTL, Add: a.Add, NotAfter: a.NotAfter,
		})
		w.expect(entries)
		w.compare(rt, a, p.Decision, p.Err, want, err)
		w.touch(execution)
	})
}

func (w *world) charge(rt *rapid.T) {
	agent := w.own(rt)
	a := redisx.ChargeArgs{Agent: agent, NotAfter: w.notAfter(rt), Path: w.path(rt, w.poolOf(rt, agent))}
	a.Amounts = amountsOn(rt, a.Path, 0)
	a.Incurred = chance(rt, "incurred", 3)
	key := rapid.SampledFrom(otherKeys).Draw(rt, "key")
	a.Execution = redisx.ExecutionID(w.org, a.Agent.ID, "charge", key)
	a.Extra.Key = key
	a.Fingerprint = fingerprint(a.Path[0].Pool, a.Amounts, a.Incurred)
	w.do(rt, "charge", func(rt *rapid.T) {
		b := w.store.Batch()
		p := b.Charge(a)
		b.Run(w.ctx)
		want, entries, err := w.model.Charge(w.nowMS, budget.ChargeCall{
			Agent: a.Agent, Execution: a.Execution, Fingerprint: a.Fingerprint, Amounts: a.Amounts, Path: a.Path,
			Incurred: a.Incurred, NotAfter: a.NotAfter,
		})
		w.mayPass = w.mayPass || a.Incurred
		w.expect(entries)
		w.compare(rt, a, p.Decision, p.Err, want, err)
		w.touch(a.Execution)
	})
}

// do runs a step and keeps it, so that "repeat" can send the same again.
func (w *world) do(rt *rapid.T, name string, step func(*rapid.T)) {
	w.last = step
	step(rt)
	w.outcomes["did "+name]++
}
