package reconciler_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"tallystick/internal/ledger"
	"tallystick/internal/reconciler"
	"tallystick/internal/scribe"
	"tallystick/internal/testkit"
	"tallystick/internal/topology"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
	"tallystick/pkg/redisx"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const org = "acme"

// epochs stands in for the registry.
type epochs struct {
	mu sync.Mutex
	of map[int]string

	holder string
	until  time.Time
}

func (e *epochs) TakeLease(_ context.Context, _, holder string, now, until time.Time) (bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.holder != "" && e.holder != holder && now.Before(e.until) {
		return false, nil
	}
	e.holder, e.until = holder, until
	return true, nil
}

func (e *epochs) EndLease(_ context.Context, _, holder string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.holder == holder {
		e.holder = ""
	}
	return nil
}

func (e *epochs) Epoch(_ context.Context, p int) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.of[p], nil
}

func (e *epochs) CreateEpoch(_ context.Context, p int) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.of[p] == "" {
		e.of[p] = fmt.Sprintf("epoch-%d", p)
	}
	return e.of[p], nil
}

// world is an installation with one org and two pools, without workers.
type world struct {
	store  *redisx.Store
	client *redis.Client
	ledger *ledger.Ledger
	js     jetstream.JetStream
	epochs *epochs
	rec    *reconciler.Reconciler
	path   []budget.Limit
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{client: testkit.OwnRedis(t).Client(t), js: testkit.NATS(t).JetStream(t), epochs: &epochs{of: map[int]string{}}}
	for _, cfg := range topology.Streams(1) {
		if cfg.Name != events.StreamLedger && cfg.Name != events.StreamEvents {
			continue
		}
		_, err := w.js.CreateStream(t.Context(), cfg)
		must(t, err)
	}
	var err error
	w.ledger, err = ledger.Open(t.Context(), w.js)
	must(t, err)
	w.store, err = redisx.New(redisx.Config{Client: w.client})
	must(t, err)
	for p := range w.store.Partitions() {
		epoch, _ := w.epochs.CreateEpoch(t.Context(), p)
		must(t, w.store.SetEpoch(t.Context(), p, epoch))
	}
	w.rec = w.reconciler(t)
	for _, pool := range []string{"team", "root"} {
		w.policy(t, pool, 1, 1_000_000)
		for _, unit := range []string{"tokens", "usd_microcents"} {
			w.path = append(w.path, budget.Limit{LimitID: budget.LimitID{Pool: pool, Unit: unit, Period: budget.PeriodNone}, Rev: 1})
		}
	}
	return w
}

func (w *world) reconciler(t testing.TB) *reconciler.Reconciler {
	t.Helper()
	r, err := reconciler.New(reconciler.Config{
		Store: w.store, Ledger: w.ledger, Events: ledger.NewEvents(w.js), Epochs: w.epochs, Log: zerolog.Nop(),
		OutstandingEvery: 20 * time.Millisecond, CompareEvery: 50 * time.Millisecond, DrainTimeout: 10 * time.Second,
	})
	must(t, err)
	return r
}

func (w *world) policy(t testing.TB, pool string, rev, maximum int64) {
	t.Helper()
	_, err := w.store.ApplyPolicy(t.Context(), redisx.PolicyArgs{Org: org, Pool: pool, Rev: rev, Limits: []redisx.PolicyLimit{
		{Unit: "tokens", Period: budget.PeriodNone, Cap: maximum, OnOverrun: "reject", State: "open", LateWindowMS: 3_600_000},
		{Unit: "usd_microcents", Period: budget.PeriodNone, Cap: maximum, Epsilon: 10, OnOverrun: "reject", State: "open", LateWindowMS: 1000},
	}})
	must(t, err)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var agent = budget.Agent{Org: org, ID: "0196b7a0-0000-7000-8000-000000000001"}

func execution(key string) string { return redisx.ExecutionID(org, agent.ID, "reserve", key) }

func (w *world) reserve(t testing.TB, key string, n int64) {
	t.Helper()
	b := w.store.Batch()
	p := b.Reserve(redisx.ReserveArgs{
		Agent: agent, Execution: execution(key), Fingerprint: "0123456789abcdef0123456789abcdef",
		Amounts: budget.Amounts{"tokens": n, "usd_microcents": 2 * n}, TTL: time.Hour, Path: w.path,
		Slots: []budget.Slot{{Pool: "team", Pattern: "*", Max: 1000}}, Target: "x", Extra: redisx.Extra{Key: key},
	})
	b.Run(t.Context())
	if p.Err != nil || p.Decision.Outcome != budget.Allowed {
		t.Errorf("reserve %s: %+v, %v", key, p.Decision, p.Err)
	}
}

// settle settles what key reserved for n tokens and twice as many microcents.
func (w *world) settle(t testing.TB, key string, n int64) *redisx.Pending {
	t.Helper()
	b := w.store.Batch()
	p := b.Settle(redisx.SettleArgs{
		Caller: agent, Execution: execution(key), Key: "s-" + key, Fingerprint: "ab", Status: "success", Final: true,
		Actual: budget.Amounts{"tokens": n, "usd_microcents": 2 * n}, Guess: w.path,
	})
	b.Run(t.Context())
	if p.Err != nil {
		t.Errorf("settle %s: %v", key, p.Err)
	}
	return p
}

func (w *world) release(t testing.TB, key string) {
	t.Helper()
	b := w.store.Batch()
	p := b.Release(redisx.ReleaseArgs{Caller: agent, Execution: execution(key), Key: "r-" + key, Fingerprint: "cd", Guess: w.path})
	b.Run(t.Context())
	if p.Err != nil {
		t.Errorf("release %s: %v", key, p.Err)
	}
}

// carry runs a scribe; the returned function stops it and waits.
func (w *world) carry(t testing.TB) (stop func()) {
	t.Helper()
	s, err := scribe.New(scribe.Config{Store: w.store, Ledger: w.ledger, Log: zerolog.Nop(), Linger: time.Millisecond, Retry: 10 * time.Millisecond})
	must(t, err)
	return background(t, s.Run)
}

func background(t testing.TB, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := run(ctx); err != nil {
			t.Error(err)
		}
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return stop
}

func (w *world) report(t testing.TB) events.OrgReport {
	t.Helper()
	a, err := w.rec.Reconcile(t.Context(), org)
	must(t, err)
	if len(a.Orgs) != 1 {
		t.Fatalf("reports: %+v", a)
	}
	if (a.Verdict == events.VerdictDrift) != (len(a.Orgs[0].Drift) > 0) {
		t.Errorf("verdict %s of %+v", a.Verdict, a.Orgs[0])
	}
	return a.Orgs[0]
}

func cause(o events.OrgReport, name string) events.DriftExplained {
	for _, e := range o.Explained {
		if e.Cause == name {
			return e
		}
	}
	return events.DriftExplained{}
}

func (w *world) limitKey(pool, unit string) string {
	return fmt.Sprintf("bp:{p%02d}%d:%s%d:%s%d:%s4:none", w.store.Partition(org), len(org), org, len(pool), pool, len(unit), unit)
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("never: %s", what)
		}
	}
}
