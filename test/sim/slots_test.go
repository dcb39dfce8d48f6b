package sim

import (
	"maps"
	"slices"

	"pgregory.net/rapid"

	"tallystick/pkg/budget"
	"tallystick/pkg/redisx"
)

// allSlots are the slots of every pool, each once.
func (w *world) allSlots() []budget.Slot {
	var all []budget.Slot
	for _, pool := range slices.Sorted(maps.Keys(w.slots)) {
		for _, s := range w.slots[pool] {
			if !slices.Contains(all, s) {
				all = append(all, s)
			}
		}
	}
	return all
}

// checkSlots: a slot's holders are the held reservations that have it. One
// past its deadline counts no more and may be gone already.
func (w *world) checkSlots(rt *rapid.T, held map[string]redisx.Record) {
	for _, s := range w.allSlots() {
		members, err := w.client.ZRangeWithScores(w.ctx, w.key("concurrency", w.org, s.Pool, s.Pattern), 0, -1).Result()
		if err != nil {
			rt.Fatal(err)
		}
		counted := map[string]bool{}
		for _, m := range members {
			execution := m.Member.(string)
			if r, ok := held[execution]; !ok || !holds(r, s) {
				rt.Fatalf("slot %s %s: %s has it and is %q", s.Pool, s.Pattern, execution, w.states[execution])
			}
			if int64(m.Score) > w.nowMS {
				counted[execution] = true
			}
		}
		for execution, r := range held {
			if holds(r, s) && r.ExpiresAt.UnixMilli() > w.nowMS && !counted[execution] {
				rt.Fatalf("slot %s %s: %s is held and does not count", s.Pool, s.Pattern, execution)
			}
		}
		if want := w.model.Holders(w.nowMS, s.Pool, s.Pattern); int64(len(counted)) != want {
			rt.Fatalf("slot %s %s: scripts %d, model %d", s.Pool, s.Pattern, len(counted), want)
		}
	}
}

func holds(r redisx.Record, s budget.Slot) bool {
	return slices.ContainsFunc(r.Slots, func(h budget.Slot) bool { return h.Pool == s.Pool && h.Pattern == s.Pattern })
}
