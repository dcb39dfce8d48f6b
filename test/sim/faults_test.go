package sim

import (
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"tallystick/pkg/budget"
	"tallystick/pkg/redisx"
)

// again sends the last request once more, as after a lost reply.
func (w *world) again(rt *rapid.T) {
	if w.last == nil {
		rt.Skip("nothing was sent")
	}
	w.last(rt)
}

func (w *world) wait(rt *rapid.T) {
	w.jump(rt, rapid.SampledFrom([]time.Duration{
		time.Millisecond, time.Second, 59 * time.Second, 11 * time.Minute, time.Hour, 25 * time.Hour,
	}).Draw(rt, "jump"))
}

// reap expires everything due, as the reaper does, and one that is not.
func (w *world) reap(rt *rapid.T) {
	todo := w.model.Due(w.nowMS)
	if len(w.known) > 0 {
		execution := rapid.SampledFrom(w.known).Draw(rt, "execution")
		if s := w.model.State(w.nowMS, execution); s != "" { // an absent record is corruption, not haste
			todo = append(todo, execution)
		}
	}
	for _, execution := range todo {
		read := w.store.Batch()
		rec := read.RecordIn(w.part, execution)
		read.Run(w.ctx)
		b := w.store.Batch()
		p := b.Expire(w.part, redisx.Overdue{Execution: execution}, rec.Record)
		b.Run(w.ctx)
		want := "nothing"
		entries := w.model.Expire(w.nowMS, execution)
		w.expect(entries)
		for _, e := range entries {
			want = string(e.Kind)
		}
		got := p.Outcome
		if got == "gone" || got == "early" {
			got = "nothing"
		}
		// What goes straight to lapsed has one entry, and it is named expired.
		if p.Err != nil || got != want {
			rt.Fatalf("expire %s: scripts %q (%v), model %q", execution, p.Outcome, p.Err, want)
		}
		w.outcomes[want]++
	}
}

func (w *world) policy(rt *rapid.T) {
	if !chance(rt, "really", 2) {
		rt.Skip("seldom")
	}
	w.newRules(rt, w.pool(rt))
}

func (w *world) newRules(rt *rapid.T, pool string) {
	rules := maps.Clone(w.rules[pool])
	frozen := chance(rt, "frozen", 3)
	for _, id := range slices.SortedFunc(maps.Keys(rules), func(a, b budget.LimitID) int { return len(a.Unit) - len(b.Unit) }) {
		rules[id] = budget.LimitPolicy{
			MaxTotal:     rapid.SampledFrom([]int64{20, 100, 150, 1000, budget.MaxAmount}).Draw(rt, "cap"),
			Epsilon:      rapid.SampledFrom([]int64{0, 5, 50}).Draw(rt, "epsilon"),
			ChargeOver:   rapid.Bool().Draw(rt, "charge"),
			LateWindowMS: rapid.SampledFrom([]int64{0, 60_000, 3_600_000}).Draw(rt, "window"),
			Frozen:       frozen,
		}
	}
	w.setPolicy(rt, pool, rules)
}

func (w *world) revoke(rt *rapid.T) {
	if !chance(rt, "really", 4) {
		rt.Skip("seldom")
	}
	a := w.own(rt)
	w.expect(w.model.Revoke(w.nowMS, a.ID))
	if err := w.store.Revoke(w.ctx, redisx.RevokeArgs{Agent: a, By: redisx.Operator}); err != nil {
		rt.Fatal(err)
	}
}

// lose deletes a limit's hash under the running system.
func (w *world) lose(rt *rapid.T) {
	ids := w.model.Limits()
	if len(ids) == 0 || !chance(rt, "really", 4) {
		rt.Skip("seldom")
	}
	id := rapid.SampledFrom(ids).Draw(rt, "limit")
	w.model.LoseLimit(id)
	if n, err := w.client.Del(w.ctx, w.limitKey(id)).Result(); err != nil || n != 1 {
		rt.Fatalf("deleted %d, %v", n, err)
	}
}
