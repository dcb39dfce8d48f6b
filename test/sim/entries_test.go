package sim

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"tallystick/pkg/budget"
	"tallystick/pkg/redisx"
)

// told is what both sides must say of an effect.
type told struct {
	Kind             budget.Kind
	Execution, Agent string
	Moves            []budget.Move
}

// expect keeps the entries that the model wants to find in the outbox.
func (w *world) expect(entries []budget.Entry) { w.wanted = append(w.wanted, entries...) }

// checkEntries compares them with those that came, changes of policy aside:
// the scripts tell a pool's limits together.
func (w *world) checkEntries(rt *rapid.T, came []budget.Entry) {
	if diff := cmp.Diff(effects(w.wanted), effects(came)); diff != "" {
		rt.Fatalf("entries (-model +scripts):\n%s", diff)
	}
	w.wanted = nil
}

func effects(entries []budget.Entry) []told {
	var out []told
	for _, e := range entries {
		if e.Kind == budget.KindPolicyChanged {
			continue
		}
		moves := slices.DeleteFunc(slices.Clone(e.Moves), func(m budget.Move) bool {
			return m == budget.Move{LimitID: m.LimitID, Missing: m.Missing} // moves nothing
		})
		if len(moves) == 0 {
			moves = nil
		}
		out = append(out, told{e.Kind, e.Execution, e.Agent, moves})
	}
	return out
}

// mayTake: whoever was let have money lives, and so do all its ancestors. It
// is read from Redis, not from the model.
func (w *world) mayTake(rt *rapid.T, request any, outcome budget.Outcome) {
	switch a := request.(type) {
	case redisx.ReserveArgs:
		w.mustLive(rt, a, outcome == budget.Allowed, a.Agent)
	case redisx.ChargeArgs:
		w.mustLive(rt, a, outcome == budget.Charged && !a.Incurred, a.Agent)
	case redisx.ExtendArgs:
		takes := outcome == budget.Allowed && len(a.Add) > 0
		w.mustLive(rt, a, takes, w.agent(w.model.Holder(w.nowMS, a.Execution)))
		w.mustLive(rt, a, takes && !a.Operator, a.Caller)
	}
}

func (w *world) mustLive(rt *rapid.T, request any, takes bool, a budget.Agent) {
	if !takes {
		return
	}
	ends, err := w.client.HMGet(w.ctx, w.key("revoked"), append([]string{a.ID}, a.Ancestors...)...).Result()
	if err != nil {
		rt.Fatal(err)
	}
	for i, v := range ends {
		if v == nil {
			continue
		}
		if end, err := strconv.ParseInt(fmt.Sprint(v), 10, 64); err != nil || end <= w.nowMS {
			rt.Fatalf("%T: %s was let have money; %d above it has ended at %v, now %d", request, a.ID, i, v, w.nowMS)
		}
	}
}
