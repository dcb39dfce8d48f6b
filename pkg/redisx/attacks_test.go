package redisx

import (
	"fmt"
	"testing"

	"tallystick/pkg/budget"
)

// TestSeedAttackCollidingKeys: names chosen so that glued together they read
// the same. Each agent, pool and unit keeps its own money, record and children.
func TestSeedAttackCollidingKeys(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	limits := []budget.Limit{
		b.pool("a", PolicyLimit{Unit: "b:c", Cap: 10}),
		b.pool("a:b", PolicyLimit{Unit: "c", Cap: 10}),
		b.pool("a1:b", PolicyLimit{Unit: "c", Cap: 10}),
		b.pool("1:a", PolicyLimit{Unit: "1:b", Cap: 10}),
	}
	agents := []budget.Agent{{Org: b.org, ID: "x:y"}, {Org: b.org, ID: "x"}, {Org: b.org, ID: "x7:reserve"}}
	keys := []string{"z", "y:z", "1:z"}
	for i, l := range limits {
		for j, a := range agents {
			b.agent = a
			args := b.slotted(b.reserveArgs(keys[j], int64(i+1), l), 3)
			args.Execution = ExecutionID(b.org, a.ID, "reserve", fmt.Sprint(keys[j], i))
			if got := told(b.reserve(args)); i < 3 && got != "allowed" {
				t.Errorf("%s of %s in %s: %s", keys[j], a.ID, l.Pool, got)
			}
		}
	}
	for i, want := range []int64{3, 6, 9, 8} { // the last limit has room for two
		if got := b.counters(limits[i]).Held; got != want {
			t.Errorf("%s %s holds %d, want %d", limits[i].Pool, limits[i].Unit, got, want)
		}
	}
	for j, a := range agents {
		live, err := b.store.Live(b.Context(), b.org, a.ID)
		if want := 4 - j/2; err != nil || len(live) != want {
			t.Errorf("%s holds %d, want %d; %v", a.ID, len(live), want, err)
		}
	}
	b.lawful(limits...)
}

// TestSeedAttackVanishedPool: the hash of a limit is deleted. Nothing more is
// taken from it, what is held can be given back, and it is never made again by
// whatever comes, its cap and what it had counted with it.
func TestSeedAttackVanishedPool(t *testing.T) {
	t.Parallel()
	runRows(t, []row{{
		"deleted", func(b *bench) string {
			p, r := b.pool("p", PolicyLimit{Cap: 100, LateWindowMS: 1000}), b.pool("r", PolicyLimit{Cap: 100})
			settled, released, expired := b.hold(10, p, r), b.hold(20, p, r), b.hold(30, p, r)
			b.drop(p)
			out := told(b.reserve(b.reserveArgs("k", 1, p, r)))
			out += ", " + told(b.reserve(b.reserveArgs("k", 1, p, r)))
			out += ", " + told(b.charge(b.chargeArgs("c", 1, false, p, r)))
			out += ", " + newFamily(b).register("a", "", granted(1, p, r))
			out += "; " + told(b.settle(b.settleArgs(settled, 10)))
			out += "; " + told(b.release(ReleaseArgs{Caller: b.agent, Execution: released.Execution, Key: "x", Fingerprint: "f"}))
			b.advance(expired.TTL)
			out += "; " + b.expire(expired.Execution)
			res, err := b.store.ApplyPolicy(b.Context(), PolicyArgs{Org: b.org, Pool: "p", Rev: p.Rev + 10, Limits: []PolicyLimit{
				{Unit: p.Unit, Period: p.Period, Cap: 1000, OnOverrun: "reject", State: "open"},
			}})
			out += fmt.Sprint("; applied ", res.Applied, " ", err)
			return out + ", " + told(b.reserve(b.reserveArgs("k", 1, p, r)))
		},
		"denied pool_missing p, denied pool_missing p, denied pool_missing p, unavailable; " +
			"settled charged usd_microcents=10 returned usd_microcents=0 pool_missing; released returned usd_microcents=20 pool_missing; " +
			"expired; applied false <nil>, denied pool_missing p",
		"expiring +3600000; opened p; opened r; r cap 100 held 0 spent 10 withheld 30; record expired 30d; record released 24h; record settled 24h; " +
			"entries policy_changed policy_changed reserved reserved reserved settled released expired",
	}})
}
