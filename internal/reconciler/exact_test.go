package reconciler_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"tallystick/internal/ledger"
	"tallystick/internal/reaper"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
	"tallystick/pkg/redisx"
)

// loadMax is how long what is under load is looked at.
const loadMax = 6 * time.Second

// busyOrgs work in partitions of their own.
func busyOrgs() []string { return []string{org, "rival", "third"} }

// busy makes orgs with pools of which one has a short late window.
func (w *world) busy(t testing.TB) map[string][]budget.Limit {
	t.Helper()
	paths := map[string][]budget.Limit{}
	for _, o := range busyOrgs() {
		for pool, window := range map[string]int64{"leaf": 5, "top": 20} {
			_, err := w.store.ApplyPolicy(t.Context(), redisx.PolicyArgs{Org: o, Pool: pool, Rev: 1, Limits: []redisx.PolicyLimit{
				{Unit: "tokens", Period: budget.PeriodNone, Cap: 1 << 40, OnOverrun: "reject", State: "open", LateWindowMS: window},
				{Unit: "calls", Period: budget.PeriodNone, Cap: 1 << 40, OnOverrun: "charge", State: "open", LateWindowMS: window},
			}})
			must(t, err)
			for _, unit := range []string{"tokens", "calls"} {
				paths[o] = append(paths[o], budget.Limit{LimitID: budget.LimitID{Pool: pool, Unit: unit, Period: budget.PeriodNone}, Rev: 1})
			}
		}
	}
	return paths
}

// work does what agents do, at random, until ctx ends. What a script refuses
// is fine: it is what it writes that counts.
func (w *world) work(ctx context.Context, random *rand.Rand, name string, paths map[string][]budget.Limit) (done int) {
	background := context.WithoutCancel(ctx)
	var before []redisx.SettleArgs
	for i := 0; ctx.Err() == nil; i++ {
		o := busyOrgs()[random.IntN(len(busyOrgs()))]
		who, path := budget.Agent{Org: o, ID: "agent-" + name}, paths[o]
		n := random.Int64N(1000) + 10
		b := w.store.Batch()
		var ids []string
		for j := range 1 + random.IntN(20) {
			id := redisx.ExecutionID(o, who.ID, "reserve", fmt.Sprint(name, i, j))
			ids = append(ids, id)
			ttl := []time.Duration{time.Hour, time.Hour, time.Millisecond, 20 * time.Millisecond}[random.IntN(4)]
			b.Reserve(redisx.ReserveArgs{
				Agent: who, Execution: id, Fingerprint: "0f", Amounts: budget.Amounts{"tokens": n, "calls": 3}, TTL: ttl, Path: path,
				Extra: redisx.Extra{Key: fmt.Sprint(i, j)},
			})
		}
		b.Charge(redisx.ChargeArgs{
			Agent: who, Execution: redisx.ExecutionID(o, who.ID, "charge", fmt.Sprint(i)), Fingerprint: "0f",
			Amounts: budget.Amounts{"tokens": n}, Path: path, Incurred: random.IntN(2) == 0,
		})
		b.Run(background)
		b = w.store.Batch()
		for j, id := range ids {
			key := fmt.Sprint("r", j)
			switch random.IntN(6) {
			case 0, 1: // within what is held, or above: then refused or charged
				b.Settle(redisx.SettleArgs{
					Caller: who, Execution: id, Key: key, Fingerprint: "0f", Status: "success", Final: true, Guess: path,
					Actual: budget.Amounts{"tokens": random.Int64N(2 * n), "calls": random.Int64N(6)},
				})
			case 2:
				b.Release(redisx.ReleaseArgs{Caller: who, Execution: id, Key: key, Fingerprint: "0f", Guess: path})
			case 3:
				b.Extend(redisx.ExtendArgs{Caller: who, Execution: id, Key: key, Fingerprint: "0f", Add: budget.Amounts{"tokens": 7}, TTL: time.Hour, Guess: path})
			}
		}
		for _, late := range before { // what has expired meanwhile is settled late
			b.Settle(late)
		}
		before = before[:0]
		for _, id := range ids {
			if random.IntN(4) == 0 {
				before = append(before, redisx.SettleArgs{
					Caller: who, Execution: id, Key: "late", Fingerprint: "0f", Status: "success", Final: true, Guess: path,
					Actual: budget.Amounts{"tokens": n, "calls": 2},
				})
			}
		}
		b.Run(background)
		done += len(ids)
		// The scribe and the comparisons have to live too, on a slow machine.
		rest(ctx, time.Duration(random.IntN(15))*time.Millisecond*time.Duration(1+done/2000))
	}
	return done
}

// underLoad runs a check while agents, a reaper and, on and off, a scribe work.
func (w *world) underLoad(t *testing.T, check func(random *rand.Rand)) {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	paths := w.busy(t)
	ctx, cancel := context.WithCancel(t.Context())
	var load sync.WaitGroup
	for g := range 4 {
		load.Go(func() {
			if w.work(ctx, rand.New(rand.NewPCG(seed, uint64(g))), fmt.Sprint(g), paths) == 0 {
				t.Error("no work was done")
			}
		})
	}
	ends, err := reaper.New(reaper.Config{Store: w.store, Ledger: w.ledger, Events: ledger.NewEvents(w.js), Log: zerolog.Nop()})
	must(t, err)
	load.Go(func() {
		for ctx.Err() == nil {
			if _, err := ends.Turn(context.WithoutCancel(ctx)); err != nil {
				t.Error(err)
			}
			rest(ctx, 2*time.Millisecond)
		}
	})
	load.Go(func() {
		random := rand.New(rand.NewPCG(seed, 100))
		for ctx.Err() == nil {
			stop := w.carry(t)
			rest(ctx, time.Duration(random.IntN(400))*time.Millisecond)
			stop()
			rest(ctx, time.Duration(random.IntN(200))*time.Millisecond)
		}
	})
	defer load.Wait()
	defer cancel()
	check(rand.New(rand.NewPCG(seed, 101)))
}

func rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// TestNeverFalseDrift compares every partition, by two reconcilers, while all
// the verbs are at work: not one row.
func TestNeverFalseDrift(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.underLoad(t, func(*rand.Rand) {
		var both sync.WaitGroup
		for range 2 {
			r := w.reconciler(t)
			both.Go(func() {
				for until := time.Now().Add(loadMax); time.Now().Before(until); {
					a, err := r.Reconcile(t.Context(), "")
					if err != nil || a.Verdict != events.VerdictOK || len(a.Orgs) != len(busyOrgs()) {
						t.Errorf("%+v, %v", a, err)
						return
					}
				}
			})
		}
		both.Wait()
	})
	w.carry(t)
	eventually(t, "nothing is pending", func() bool { return cause(w.report(t), "outbox_pending").Count == 0 })
	kinds := map[budget.Kind]int{}
	must(t, w.ledger.Walk(t.Context(), "", 0, func(m ledger.Message) error {
		e, err := ledger.Decode(m.Body)
		kinds[e.Kind]++
		return err
	}))
	for _, k := range []budget.Kind{
		budget.KindReserved, budget.KindSettled, budget.KindReleased, budget.KindExtended, budget.KindCharged,
		budget.KindExpired, budget.KindLapsed, budget.KindLateSettled, budget.KindOverrunRefused,
	} {
		if kinds[k] == 0 {
			t.Errorf("the load never wrote %s: %v", k, kinds)
		}
	}
}

// TestInjectedDriftUnderLoad: whatever is put on whichever counter while all
// work, the report says exactly that and nothing else, and ok once it is gone.
func TestInjectedDriftUnderLoad(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.underLoad(t, func(random *rand.Rand) {
		for until := time.Now().Add(loadMax); time.Now().Before(until); {
			injected := map[string]map[string]int64{} // by limit's key, by counter
			want := map[string]int64{}
			for range 1 + random.IntN(4) { // the same counter twice is a sum
				o, pool := busyOrgs()[random.IntN(3)], []string{"leaf", "top"}[random.IntN(2)]
				unit := []string{"tokens", "calls"}[random.IntN(2)]
				counter := []string{"cap", "adj", "held", "spent", "withheld"}[random.IntN(5)]
				d := random.Int64N(2_000_001) - 1_000_000
				key := fmt.Sprintf("bp:{p%02d}%d:%s%d:%s%d:%s4:none", w.store.Partition(o), len(o), o, len(pool), pool, len(unit), unit)
				must(t, w.client.HIncrBy(t.Context(), key, counter, d).Err())
				if injected[key] == nil {
					injected[key] = map[string]int64{}
				}
				injected[key][counter] += d
				row := fmt.Sprint(o, " ", pool, " ", unit, " none ", counter)
				if want[row] += d; want[row] == 0 {
					delete(want, row)
				}
			}
			w.drifts(t, want)
			for key, counters := range injected {
				for counter, d := range counters {
					must(t, w.client.HIncrBy(t.Context(), key, counter, -d).Err())
				}
			}
			w.drifts(t, map[string]int64{})
		}
	})
}

// drifts compares every partition and wants those rows.
func (w *world) drifts(t *testing.T, want map[string]int64) {
	t.Helper()
	a, err := w.rec.Reconcile(t.Context(), "")
	must(t, err)
	got := map[string]int64{}
	for _, o := range a.Orgs {
		for _, d := range o.Drift {
			got[fmt.Sprint(o.Org, " ", d.Pool, " ", d.Unit, " ", d.Period, " ", d.Counter)] = d.Drift
			if d.Actual-d.Expected != d.Drift || d.Cause != "" {
				t.Errorf("row %+v", d)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || (a.Verdict == events.VerdictDrift) != (len(want) > 0) {
		t.Errorf("%s: %s", a.Verdict, diff)
	}
}

// TestAlarmBeginsAndEndsOnce: what goes on differing is told once at its
// beginning and once at its end, and the gauges go back to 0 by themselves.
func TestAlarmBeginsAndEndsOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.carry(t)
	background(t, w.rec.Run)
	compared := func(n float64) {
		t.Helper()
		from := metric(t, w.rec, "tally_reconciler_comparisons_total", "")
		eventually(t, "compared", func() bool { return metric(t, w.rec, "tally_reconciler_comparisons_total", "") >= from+16*n })
	}
	for range 2 {
		must(t, w.client.HIncrBy(t.Context(), w.limitKey("team", "tokens"), "spent", 17).Err())
		eventually(t, "the alarm", func() bool { return metric(t, w.rec, "tally_reconciler_alarm", "") == 1 })
		compared(5)
		must(t, w.client.HIncrBy(t.Context(), w.limitKey("team", "tokens"), "spent", -17).Err())
		eventually(t, "its end", func() bool {
			return metric(t, w.rec, "tally_reconciler_alarm", "")+metric(t, w.rec, "tally_reconciler_drift_counters", "") == 0
		})
		compared(5)
	}
	stream, err := w.js.Stream(t.Context(), events.StreamEvents)
	must(t, err)
	var told []string
	for seq := uint64(1); seq <= stream.CachedInfo().State.LastSeq; seq++ {
		m, err := stream.GetMsg(t.Context(), seq)
		must(t, err)
		var d events.Drift
		must(t, json.Unmarshal(m.Data, &d))
		told = append(told, fmt.Sprint(d.Verdict, " ", len(d.Drift)))
	}
	if diff := cmp.Diff([]string{"drift 1", "ok 0", "drift 1", "ok 0"}, told); diff != "" {
		t.Error(diff)
	}
}
