package reconciler_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"tallystick/internal/reconciler"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
	"tallystick/pkg/redisx"
)

// TestExactUnderLoad compares while agents work, with the scribe away, at
// work, and in between.
func TestExactUnderLoad(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var load sync.WaitGroup
	defer load.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for g := range 4 {
		load.Go(func() {
			for i := 0; ctx.Err() == nil && i < 2000; i++ {
				key := fmt.Sprintf("%d-%d", g, i)
				w.reserve(t, key, int64(i%5+1))
				switch i % 3 {
				case 0:
					w.settle(t, key, 1)
				case 1:
					w.release(t, key)
				}
				if i%3 == 2 && i%7 != 0 {
					w.settle(t, key, int64(i%5+1))
				}
			}
		})
	}
	for range 3 {
		for range 10 {
			if o := w.report(t); len(o.Drift) > 0 {
				t.Fatalf("scribe away: %+v", o)
			}
		}
		stop := w.carry(t)
		for range 10 {
			if o := w.report(t); len(o.Drift) > 0 {
				t.Fatalf("scribe at work: %+v", o)
			}
		}
		stop()
	}
	cancel()
	load.Wait()
	w.carry(t)
	eventually(t, "nothing is pending", func() bool { return cause(w.report(t), "outbox_pending").Count == 0 })
}

func TestInjectedDriftIsReportedExactly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.reserve(t, "a", 100)
	w.settle(t, "a", 30)
	w.reserve(t, "b", 5)
	must(t, w.client.HIncrBy(t.Context(), w.limitKey("team", "tokens"), "spent", 17).Err())
	must(t, w.client.HIncrBy(t.Context(), w.limitKey("root", "usd_microcents"), "held", -3).Err())
	o := w.report(t)
	want := []events.DriftRow{
		{Pool: "root", Unit: "usd_microcents", Period: "none", Counter: "held", Expected: 10, Actual: 7, Drift: -3},
		{Pool: "team", Unit: "tokens", Period: "none", Counter: "spent", Expected: 30, Actual: 47, Drift: 17},
	}
	if diff := cmp.Diff(want, o.Drift); diff != "" {
		t.Error(diff)
	}
	if p := cause(o, "outbox_pending"); p.Count != 5 || p.Amounts["tokens"] < 205 {
		t.Errorf("pending: %+v", p)
	}
}

func TestDriftIsPublished(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.carry(t)
	must(t, w.client.HIncrBy(t.Context(), w.limitKey("team", "tokens"), "spent", 17).Err())
	background(t, w.rec.Run)
	stream, err := w.js.Stream(t.Context(), events.StreamEvents)
	must(t, err)
	eventually(t, "the event", func() bool {
		m, err := stream.GetLastMsgForSubject(t.Context(), events.Event(org, events.EventDrift))
		if err != nil {
			return false
		}
		var d events.Drift
		must(t, json.Unmarshal(m.Data, &d))
		return len(d.Drift) == 1 && d.Drift[0].Drift == 17
	})
}

func TestMissingLimitIsDriftUntilRebuilt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.reserve(t, "a", 100)
	w.reserve(t, "b", 50)
	must(t, w.client.Del(t.Context(), w.limitKey("team", "tokens")).Err())
	if p := w.settle(t, "a", 60); !p.Decision.PoolMissing {
		t.Errorf("settle: %+v", p.Decision)
	}
	o := w.report(t)
	if c := cause(o, "pool_missing"); len(o.Drift) == 0 || c.Count != 1 || c.Amounts["tokens"] != 110 {
		t.Errorf("missing limit: %+v", o)
	}
	for _, d := range o.Drift {
		if d.Cause != "pool_missing" || d.Pool != "team" || d.Unit != "tokens" {
			t.Errorf("row %+v", d)
		}
	}
	w.carry(t)
	_, err := w.rec.Rebuild(t.Context(), []int{w.store.Partition(org)})
	must(t, err)
	if o := w.report(t); len(o.Drift) > 0 {
		t.Errorf("after the rebuild: %+v", o)
	}
	got, err := w.client.HMGet(t.Context(), w.limitKey("team", "tokens"), "cap", "held", "spent").Result()
	must(t, err)
	if diff := cmp.Diff([]any{"1000000", "50", "60"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestCauses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.reserve(t, "a", 100)
	if p := w.settle(t, "a", 120); p.Decision.Outcome != budget.Refused {
		t.Fatalf("overrun: %+v", p.Decision)
	}
	w.reserve(t, "b", 9)
	p := w.store.Partition(org)
	must(t, w.client.HSet(t.Context(), fmt.Sprintf("quarantine:{p%02d}", p), execution("b"), "record_corrupt").Err())
	w.carry(t)
	eventually(t, "all on the ledger", func() bool { return cause(w.report(t), "outbox_pending").Count == 0 })
	o := w.report(t)
	want := []events.DriftExplained{
		{Cause: "overrun_refused", Count: 1, Amounts: map[string]int64{"tokens": 20, "usd_microcents": 40}},
		{Cause: "quarantined", Count: 1, Amounts: map[string]int64{"tokens": 9, "usd_microcents": 18}},
	}
	if diff := cmp.Diff(want, o.Explained); diff != "" || len(o.Drift) > 0 {
		t.Errorf("%s\n%+v", diff, o.Drift)
	}
}

func TestOutstandingIsWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.carry(t)
	background(t, w.rec.Run)
	w.reserve(t, "a", 1)
	w.reserve(t, "b", 1)
	w.reserve(t, "c", 1)
	w.settle(t, "a", 1)
	p := w.store.Partition(org)
	field := fmt.Sprintf("%d:%s4:root6:tokens4:none", len(org), org)
	eventually(t, "two are outstanding", func() bool {
		n, err := w.client.HGet(t.Context(), fmt.Sprintf("outstanding:{p%02d}", p), field).Result()
		return err == nil && n == "2"
	})
	w.release(t, "b")
	w.release(t, "c")
	eventually(t, "none is", func() bool {
		n, err := w.client.HGet(t.Context(), fmt.Sprintf("outstanding:{p%02d}", p), field).Result()
		return err == nil && n == "0"
	})
}

// dump is everything a partition holds that a rebuild must give back.
func (w *world) dump(t testing.TB) map[string]any {
	t.Helper()
	out := map[string]any{}
	keys, err := w.client.Keys(t.Context(), fmt.Sprintf("*{p%02d}*", w.store.Partition(org))).Result()
	must(t, err)
	for _, key := range keys {
		kind, err := w.client.Type(t.Context(), key).Result()
		must(t, err)
		switch kind {
		case "string":
			out[key], err = w.client.Get(t.Context(), key).Result()
		case "hash":
			out[key], err = w.client.HGetAll(t.Context(), key).Result()
		case "zset":
			out[key], err = w.client.ZRangeWithScores(t.Context(), key, 0, -1).Result()
		case "set":
			var members []string
			members, err = w.client.SMembers(t.Context(), key).Result()
			out[key] = members
		}
		must(t, err)
	}
	return out
}

// family registers a tree: with an end, with a grant, and with a branch that is
// revoked and whose places are cleared.
func (w *world) family(t *testing.T) {
	t.Helper()
	child := func(id string, ancestors ...string) redisx.RegisterArgs {
		a := redisx.RegisterArgs{ChildrenMax: 10, TreeMax: 10, Execution: redisx.ExecutionID(org, id, "register", "k")}
		a.Org, a.Agent, a.Name, a.Root, a.Pool, a.Ancestors, a.Fingerprint = org, id, id, id, "team", ancestors, "0f"
		if len(ancestors) > 0 {
			a.Parent, a.Root = ancestors[0], ancestors[len(ancestors)-1]
		}
		return a
	}
	brief, granted := child("brief", "root"), child("granted", "root")
	brief.ExpiresAtMS = time.Now().Add(time.Hour).UnixMilli()
	granted.Pool, granted.PoolParent, granted.Granted = "agent:granted", "team", budget.Amounts{"tokens": 5}
	granted.Made = []redisx.PolicyLimit{{Unit: "tokens", Period: "none", Cap: 5, OnOverrun: "reject", State: "open", LateWindowMS: 1000}}
	dead, below := child("dead", "root"), child("below", "dead", "root")
	for _, a := range []redisx.RegisterArgs{child("root"), brief, granted, dead, below} {
		_, _, err := w.store.Register(t.Context(), a)
		must(t, err)
	}
	gone := budget.Agent{Org: org, ID: "below", Ancestors: below.Ancestors}
	must(t, w.store.Revoke(t.Context(), redisx.RevokeArgs{Agent: budget.Agent{Org: org, ID: "dead", Ancestors: dead.Ancestors}, By: "operator"}))
	must(t, w.store.Uncount(t.Context(), "root", []budget.Agent{gone}))
}

func TestRebuildGivesBackWhatWas(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 30 {
		key := fmt.Sprint(i)
		w.reserve(t, key, 10)
		switch i % 5 {
		case 0:
			w.settle(t, key, 4)
		case 1:
			w.release(t, key)
		case 2:
			w.settle(t, key, 15) // refused, remembered
		}
	}
	w.policy(t, "team", 2, 2_000_000)
	w.path[0].Rev, w.path[1].Rev = 2, 2
	w.family(t)
	stop := w.carry(t)
	eventually(t, "all on the ledger", func() bool { return cause(w.report(t), "outbox_pending").Count == 0 })
	stop()
	p := w.store.Partition(org)
	before := w.dump(t)
	lastBefore, err := w.store.OutboxLast(t.Context())
	must(t, err)
	must(t, w.client.FlushAll(t.Context()).Err())

	answer, err := w.reconciler(t).Rebuild(t.Context(), []int{p}) // a fresh process
	must(t, err)
	if answer.Outcome != "rebuilt" || len(answer.Orgs) != 1 || answer.Entries == 0 {
		t.Errorf("answer %+v", answer)
	}
	ignore := cmpopts.IgnoreMapEntries(func(key string, _ any) bool {
		family, _, _ := strings.Cut(key, ":") // expiring is a lower bound, and exact after a rebuild
		return family == "scribe" || family == "outstanding" || family == "expiring"
	})
	sorted := cmpopts.SortSlices(func(a, b string) bool { return a < b })
	if diff := cmp.Diff(before, w.dump(t), ignore, sorted); diff != "" {
		t.Errorf("rebuild differs: %s", diff)
	}
	last, err := w.store.OutboxLast(t.Context())
	must(t, err)
	if last[p] != lastBefore[p] {
		t.Errorf("outbox continues after %q, the ledger ends at %q", last[p], lastBefore[p])
	}
	w.carry(t)
	w.settle(t, "3", 5) // a reservation from before goes on
	w.reserve(t, "new", 5)
	eventually(t, "the new entries are on the ledger", func() bool { return cause(w.report(t), "outbox_pending").Count == 0 })
	if o := w.report(t); len(o.Drift) > 0 {
		t.Errorf("%+v", o.Drift)
	}
}

func TestRebuildWaitsForTheScribe(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.reserve(t, "a", 1)
	p := w.store.Partition(org)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := w.rec.Rebuild(ctx, []int{p}); !errors.Is(err, budget.ErrUnavailable) {
		t.Fatalf("rebuild without a scribe: %v", err)
	}
	if reason, err := w.store.Fenced(t.Context(), p); err != nil || reason == "" {
		t.Errorf("the partition was opened: %q, %v", reason, err)
	}
	w.carry(t)
	_, err := w.rec.Rebuild(t.Context(), []int{p})
	must(t, err)
	w.reserve(t, "b", 1)
}

// TestEmptiedWithAnEmptyLedgerHealsItself: the registrar died between KV and
// Redis.
func TestEmptiedWithAnEmptyLedgerHealsItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must(t, w.client.FlushAll(t.Context()).Err())
	background(t, w.rec.Run)
	eventually(t, "every epoch is back", func() bool {
		for p := range w.store.Partitions() {
			epoch, err := w.store.Epoch(t.Context(), p)
			if err != nil || epoch != fmt.Sprintf("epoch-%d", p) {
				return false
			}
		}
		return true
	})
	eventually(t, "ready", func() bool { return w.rec.Ready() == nil })
}

func TestTolerance(t *testing.T) {
	t.Parallel()
	tolerance, err := reconciler.PublishedTolerance()
	must(t, err)
	if tolerance.UnexplainedDrift != 0 || len(tolerance.Causes) != 6 {
		t.Errorf("%+v", tolerance)
	}
	for _, c := range tolerance.Causes {
		if c.Cause == "" || c.Why == "" || c.Count == "" || c.Amount == "" || c.Ends == "" {
			t.Errorf("cause without a reason: %+v", c)
		}
	}
}
