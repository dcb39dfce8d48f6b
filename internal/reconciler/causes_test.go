package reconciler_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tallystick/pkg/budget"
	"tallystick/pkg/events"
	"tallystick/pkg/redisx"
)

// TestEachCause brings about the causes of the tolerance, each alone and all
// at once: own count, own amounts, and drift where the file says so.
func TestEachCause(t *testing.T) {
	t.Parallel()
	amounts := func(tokens int64) map[string]int64 {
		return map[string]int64{"tokens": tokens, "usd_microcents": 2 * tokens}
	}
	causes := []struct {
		name  string
		make  func(w *world)
		count int64
		sums  map[string]int64
	}{
		{"late_settled", func(w *world) {
			path := w.path
			w.path = w.gonePath(t)
			w.reserve(t, "late", 50)
			w.lapse(t, "late")
			if p := w.settle(t, "late", 40); p.Decision.Outcome != budget.LateSettled {
				t.Errorf("late settle: %+v", p.Decision)
			}
			w.path = path
		}, 1, amounts(40)},
		{"overrun_refused", func(w *world) {
			w.reserve(t, "over-1", 100)
			w.settle(t, "over-1", 130)
			w.reserve(t, "over-2", 100)
			w.settle(t, "over-2", 150)
			w.reserve(t, "over-3", 100)
			w.settle(t, "over-3", 500)
			w.settle2(t, "over-3", 90) // no longer refused
		}, 2, amounts(80)},
		{"quarantined", func(w *world) {
			w.reserve(t, "aside", 9)
			key := fmt.Sprintf("quarantine:{p%02d}", w.store.Partition(org))
			must(t, w.client.HSet(t.Context(), key, execution("aside"), "record_corrupt").Err())
		}, 1, amounts(9)},
		{"pool_missing", func(w *world) {
			w.reserve(t, "before", 30)
			must(t, w.client.Del(t.Context(), w.limitKey("root", "tokens")).Err())
		}, 1, nil}, // all that the limit held
		{"outbox_pending", func(w *world) {
			w.reserve2(t, "pending-1", 11)
			w.reserve2(t, "pending-2", 12)
		}, 2, amounts(23)},
	}
	all := newWorld(t)
	for _, c := range causes {
		alone := newWorld(t)
		for _, w := range []*world{alone, all} {
			w.settled(t)
			c.make(w)
			if c.name != "outbox_pending" {
				w.settled(t)
			}
		}
		o := alone.report(t)
		if len(o.Explained) != 1 {
			t.Errorf("%s: explained %+v", c.name, o.Explained)
		}
		c.sums = sumsOf(c.sums, 30)
		if diff := cmp.Diff(events.DriftExplained{Cause: c.name, Count: c.count, Amounts: c.sums}, cause(o, c.name)); diff != "" {
			t.Errorf("%s alone: %s", c.name, diff)
		}
		if missing := c.name == "pool_missing"; missing != (len(o.Drift) > 0) {
			t.Errorf("%s: %+v", c.name, o.Drift)
		}
	}
	o := all.report(t)
	if len(o.Explained) != len(causes) {
		t.Errorf("together: %+v", o.Explained)
	}
	for _, c := range causes {
		if c.name == "pool_missing" { // what is held then: 200 of two overruns, 90, 9, 30, and 23 on their way
			c.sums = map[string]int64{"tokens": 200 + 90 + 9 + 30}
		}
		if diff := cmp.Diff(events.DriftExplained{Cause: c.name, Count: c.count, Amounts: c.sums}, cause(o, c.name)); diff != "" {
			t.Errorf("%s together: %s", c.name, diff)
		}
	}
	for _, d := range o.Drift {
		if d.Pool != "root" || d.Unit != "tokens" || d.Cause != "pool_missing" {
			t.Errorf("row %+v", d)
		}
	}
}

func sumsOf(sums map[string]int64, missing int64) map[string]int64 {
	if sums == nil {
		return map[string]int64{"tokens": missing}
	}
	return sums
}

// settled carries everything to the ledger.
func (w *world) settled(t *testing.T) {
	t.Helper()
	stop := w.carry(t)
	eventually(t, "all on the ledger", func() bool { return cause(w.report(t), "outbox_pending").Count == 0 })
	stop()
}

// settle2 settles under another key.
func (w *world) settle2(t *testing.T, key string, n int64) {
	t.Helper()
	b := w.store.Batch()
	p := b.Settle(redisx.SettleArgs{
		Caller: agent, Execution: execution(key), Key: "again-" + key, Fingerprint: "ac", Status: "success", Final: true,
		Actual: budget.Amounts{"tokens": n, "usd_microcents": 2 * n}, Guess: w.path,
	})
	b.Run(t.Context())
	if p.Err != nil || p.Decision.Outcome != budget.Settled {
		t.Errorf("settle %s again: %+v, %v", key, p.Decision, p.Err)
	}
}

// gonePath is a pool whose late window is none at all.
func (w *world) gonePath(t *testing.T) (path []budget.Limit) {
	t.Helper()
	var limits []redisx.PolicyLimit
	for _, unit := range []string{"tokens", "usd_microcents"} {
		limits = append(limits, redisx.PolicyLimit{Unit: unit, Period: budget.PeriodNone, Cap: 1000, OnOverrun: "reject", State: "open"})
		path = append(path, budget.Limit{LimitID: budget.LimitID{Pool: "gone", Unit: unit, Period: budget.PeriodNone}, Rev: 1})
	}
	_, err := w.store.ApplyPolicy(t.Context(), redisx.PolicyArgs{Org: org, Pool: "gone", Rev: 1, Limits: limits})
	must(t, err)
	return path
}

// reserve2 reserves in the team's pool alone, which is never missing.
func (w *world) reserve2(t *testing.T, key string, n int64) {
	t.Helper()
	path := w.path
	defer func() { w.path = path }()
	w.path = slices.Clone(path[:2])
	w.reserve(t, key, n)
}

func TestUnreadableCounterIsDrift(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.settled(t)
	must(t, w.client.HSet(t.Context(), w.limitKey("team", "tokens"), "adj", "none").Err()) // expected is 0
	o := w.report(t)
	want := []events.DriftRow{{Pool: "team", Unit: "tokens", Period: "none", Counter: "adj", Cause: "counter_unreadable"}}
	if diff := cmp.Diff(want, o.Drift); diff != "" || cause(o, "counter_unreadable").Count != 1 {
		t.Errorf("%s\n%+v", diff, o.Explained)
	}
}
