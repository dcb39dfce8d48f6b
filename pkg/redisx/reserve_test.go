package redisx

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"tallystick/pkg/budget"
)

const opened = "opened p; p cap 100 held 0 spent 0 withheld 0; entries policy_changed"

func TestReserve(t *testing.T) {
	t.Parallel()
	reserve := func(b *bench, a ReserveArgs) string { return told(b.reserve(a)) }
	runRows(t, []row{
		{"fenced", func(b *bench) string {
			l := b.pool("p", PolicyLimit{Cap: 100})
			defer b.fence()()
			return reserve(b, b.reserveArgs("k", 10, l))
		}, "unavailable", opened},
		{"replayed", func(b *bench) string {
			h := b.hold(10, b.pool("p", PolicyLimit{Cap: 100}))
			return reserve(b, h)
		}, "allowed replayed", "expiring +60000; live 1; opened p; p cap 100 held 10 spent 0 withheld 0; record held; entries policy_changed reserved"},
		{"key reused", func(b *bench) string {
			h := b.hold(10, b.pool("p", PolicyLimit{Cap: 100}))
			h.Fingerprint = "00000000000000000000000000000bad"
			return reserve(b, h)
		}, "idempotency key reused with other content", "expiring +60000; live 1; opened p; p cap 100 held 10 spent 0 withheld 0; record held; entries policy_changed reserved"},
		{"released before", func(b *bench) string {
			a := b.reserveArgs("k", 10, b.pool("p", PolicyLimit{Cap: 100}))
			told(b.release(ReleaseArgs{Caller: b.agent, Execution: a.Execution, Key: "r", ByKey: true}))
			return reserve(b, a)
		}, "denied released replayed", "opened p; p cap 100 held 0 spent 0 withheld 0; record tombstone 1h; entries policy_changed"},
		{"not an amount", func(b *bench) string {
			a := b.reserveArgs("k", 10, b.pool("p", PolicyLimit{Cap: 100}))
			a.Amounts["usd_microcents"] = -5
			return reserve(b, a)
		}, `redisx: reserve.lua answered "invalid"`, opened},
		{"stale", func(b *bench) string {
			l := b.pool("p", PolicyLimit{Cap: 100})
			l.Rev--
			return reserve(b, b.reserveArgs("k", 10, l))
		}, "stale policy", opened},
		{"not made yet", func(b *bench) string {
			b.pool("p", PolicyLimit{Cap: 100})
			return reserve(b, b.reserveArgs("k", 10, budget.Limit{LimitID: budget.LimitID{Pool: "q", Unit: "usd_microcents", Period: "none"}}))
		}, "stale policy", opened},
		{"deadline passed", func(b *bench) string {
			a := b.reserveArgs("k", 10, b.pool("p", PolicyLimit{Cap: 100, State: "frozen"}))
			a.NotAfter = time.UnixMilli(b.nowMS - 1)
			return reserve(b, a) + ", " + reserve(b, a)
		}, "denied deadline_passed, denied deadline_passed replayed", "opened p; p cap 100 held 0 spent 0 withheld 0; record denied 1h; entries policy_changed"},
		{"revoked", func(b *bench) string {
			a := b.reserveArgs("k", 10, b.pool("p", PolicyLimit{Cap: 100, State: "frozen"}))
			b.revoke(b.agent)
			return reserve(b, a)
		}, "denied revoked", "opened p; p cap 100 held 0 spent 0 withheld 0; record denied 1h; revoked; entries policy_changed agent_revoked"},
		{"ancestor revoked", func(b *bench) string {
			a := b.reserveArgs("k", 10, b.pool("p", PolicyLimit{Cap: 100}))
			root := budget.Agent{Org: b.org, ID: uuid.NewString()}
			a.Agent.Ancestors = []string{uuid.NewString(), root.ID}
			b.revoke(root)
			return reserve(b, a)
		}, "denied revoked", "opened p; p cap 100 held 0 spent 0 withheld 0; record denied 1h; entries policy_changed agent_revoked"},
		{"frozen before missing", func(b *bench) string {
			l, r := b.pool("p", PolicyLimit{Cap: 100}), b.pool("r", PolicyLimit{Cap: 100, State: "frozen"})
			b.drop(l)
			return reserve(b, b.reserveArgs("k", 10, l, r))
		}, "denied frozen r", "opened p; opened r; r cap 100 held 0 spent 0 withheld 0; record denied 1h; entries policy_changed policy_changed"},
		{"pool missing", func(b *bench) string {
			l := b.pool("p", PolicyLimit{Cap: 100})
			b.drop(l)
			return reserve(b, b.reserveArgs("k", 1000, l))
		}, "denied pool_missing p", "opened p; entries policy_changed"},
		{"period closed", func(b *bench) string {
			return reserve(b, b.reserveArgs("k", 1000, b.pool("p", PolicyLimit{Cap: 100, State: "closed"})))
		}, "denied period_closed p", "opened p; p cap 100 held 0 spent 0 withheld 0; record denied 1h; entries policy_changed"},
		{"debt", func(b *bench) string {
			l := b.pool("p", PolicyLimit{Cap: 100})
			told(b.charge(b.chargeArgs("c", 150, true, l)))
			return reserve(b, b.slotted(b.reserveArgs("k", 10, l), 0))
		}, "denied debt p", "opened p; p cap 100 held 0 spent 150 withheld 0; record charged 24h; record denied 1h; entries policy_changed charged"},
		{"concurrency exceeded", func(b *bench) string {
			l := b.pool("p", PolicyLimit{Cap: 100})
			first := b.slotted(b.reserveArgs("first", 10, l), 1)
			return reserve(b, first) + ", " + reserve(b, b.slotted(b.reserveArgs("k", 1000, l), 1))
		}, "allowed, denied concurrency_exceeded p", "expiring +60000; live 1; opened p; p cap 100 held 10 spent 0 withheld 0; record denied 1h; record held; slot 1; entries policy_changed reserved"},
		{"budget exceeded at the root", func(b *bench) string {
			l, r := b.pool("p", PolicyLimit{Cap: 100}), b.pool("r", PolicyLimit{Cap: 50})
			return reserve(b, b.reserveArgs("k", 51, l, r))
		}, "denied budget_exceeded r", "opened p; opened r; p cap 100 held 0 spent 0 withheld 0; r cap 50 held 0 spent 0 withheld 0; record denied 1h; entries policy_changed policy_changed"},
		{"ceiling exceeded", func(b *bench) string {
			l := b.pool("p", PolicyLimit{Cap: 100})
			l.Ceiling = 9
			return reserve(b, b.reserveArgs("k", 10, l))
		}, "denied budget_exceeded p", "opened p; p cap 100 held 0 spent 0 withheld 0; record denied 1h; entries policy_changed"},
		{"denial is stable", func(b *bench) string {
			a := b.reserveArgs("k", 101, b.pool("p", PolicyLimit{Cap: 100}))
			first := reserve(b, a)
			b.pool("p", PolicyLimit{Cap: 1000})
			return first + ", " + reserve(b, a)
		}, "denied budget_exceeded p, denied budget_exceeded p replayed", "opened p; p cap 1000 held 0 spent 0 withheld 0; record denied 1h; entries policy_changed policy_changed"},
		{"dry run", func(b *bench) string {
			a := b.reserveArgs("k", 10, b.pool("p", PolicyLimit{Cap: 100}))
			a.Execution, a.DryRun = "", true
			return reserve(b, a)
		}, "allowed", opened},
		{"allowed", func(b *bench) string {
			l, r := b.pool("p", PolicyLimit{Cap: 100}), b.pool("r", PolicyLimit{Cap: 50})
			return reserve(b, b.slotted(b.reserveArgs("k", 50, l, r), 1))
		}, "allowed", "expiring +60000; live 1; opened p; opened r; p cap 100 held 50 spent 0 withheld 0; r cap 50 held 50 spent 0 withheld 0; record held; slot 1; entries policy_changed policy_changed reserved"},
	})
}

func TestReserveEmptied(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	l := b.pool("p", PolicyLimit{Cap: 100})
	// A partition of its own would be emptied whole; here a Store with another
	// number of partitions looks at one that never had an epoch.
	other, err := New(Config{Client: b.client, Clock: b.clock, Partitions: 99})
	if err != nil {
		t.Fatal(err)
	}
	for other.Partition(b.org) < PartitionsDefault {
		b.org += "x"
	}
	b.store, b.agent.Org = other, b.org
	if got := told(b.reserve(b.reserveArgs("k", 1, l))); got != "unavailable" {
		t.Errorf("reserve: %s", got)
	}
	if got := told(b.settle(b.settleArgs(b.reserveArgs("k", 1, l), 1))); got != "unavailable" {
		t.Errorf("settle: %s", got)
	}
	if got := told(b.release(ReleaseArgs{Caller: b.agent, Execution: uuid.NewString(), Key: "r", ByKey: true})); got != "unavailable" {
		t.Errorf("release: %s", got)
	}
}

// TestReserveLastUnit: 200 at once for the last unit; one gets it.
func TestReserveLastUnit(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, fresh func(testing.TB) *bench) {
		b := fresh(t)
		l := b.pool("p", PolicyLimit{Cap: 1})
		var mu sync.Mutex
		outcomes := map[string]int{}
		var wg sync.WaitGroup
		for i := range 200 {
			a := b.reserveArgs(fmt.Sprintf("k%d", i), 1, l)
			wg.Go(func() {
				got := told(b.reserve(a))
				mu.Lock()
				defer mu.Unlock()
				outcomes[got]++
			})
		}
		wg.Wait()
		if outcomes["allowed"] != 1 || outcomes["denied budget_exceeded p"] != 199 {
			t.Errorf("outcomes %v", outcomes)
		}
		b.lawful(l)
	})
}

// TestSlotHeals: a holder past its deadline does not count, without a reaper.
func TestSlotHeals(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, fresh func(testing.TB) *bench) {
		b := fresh(t)
		l := b.pool("p", PolicyLimit{Cap: 100})
		told(b.reserve(b.slotted(b.reserveArgs("a", 1, l), 1)))
		d, err := b.reserve(b.slotted(b.reserveArgs("b", 1, l), 1))
		if err != nil || d.Denial == nil || d.Denial.Holders != 1 || d.Denial.RetryAfter != time.Minute {
			t.Errorf("denied: %+v, %v", d.Denial, err)
		}
		b.advance(time.Minute)
		if got := told(b.reserve(b.slotted(b.reserveArgs("c", 1, l), 1))); got != "allowed" {
			t.Errorf("after the deadline: %s", got)
		}
	})
}
