package scribe_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"tallystick/internal/ledger"
	"tallystick/internal/registry"
	"tallystick/internal/scribe"
	"tallystick/internal/testkit"
	"tallystick/internal/topology"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
	"tallystick/pkg/redisx"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const org = "acme"

// world is a Redis with one pool and an empty ledger.
type world struct {
	store  *redisx.Store
	client *redis.Client
	redis  *testkit.RedisServer
	ledger *ledger.Ledger
	js     jetstream.JetStream
	anchor string
	path   []budget.Limit
	n      int
	told   told
	losses losses
}

// told are the events that a scribe published.
type told struct {
	mu     sync.Mutex
	events []events.EventMessage
}

func (e *told) Publish(_ context.Context, event events.EventMessage) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.events = append(e.events, event)
	return nil
}

// count counts the events of a type.
func (e *told) count(name string) (n int, last events.EventMessage) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, event := range e.events {
		if event.Head().Type == "tally.event.v1."+name {
			n, last = n+1, event
		}
	}
	return n, last
}

// losses is where a halt is told and accepted.
type losses struct {
	mu               sync.Mutex
	halted, accepted *registry.Loss
}

func (l *losses) Halt(_ context.Context, loss registry.Loss) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.halted = &loss
	return nil
}

func (l *losses) Accepted(context.Context) (registry.Loss, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.accepted == nil {
		return registry.Loss{}, false, nil
	}
	return *l.accepted, true, nil
}

func (l *losses) accept(edit func(*registry.Loss)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	loss := *l.halted
	edit(&loss)
	l.accepted = &loss
}

func newWorld(t testing.TB, redisArgs ...string) *world {
	t.Helper()
	w := &world{redis: testkit.OwnRedis(t, redisArgs...), js: testkit.NATS(t).JetStream(t), anchor: filepath.Join(t.TempDir(), "scribe.anchor")}
	w.client = w.redis.Client(t)
	w.makeLedger(t)
	store, err := redisx.New(redisx.Config{Client: w.client})
	if err != nil {
		t.Fatal(err)
	}
	w.store = store
	for p := range store.Partitions() {
		must(t, store.SetEpoch(t.Context(), p, "e1"))
	}
	_, err = store.ApplyPolicy(t.Context(), redisx.PolicyArgs{Org: org, Pool: "research", Rev: 1, Limits: []redisx.PolicyLimit{
		{Unit: "tokens", Period: budget.PeriodNone, Cap: 1 << 40, OnOverrun: "reject", State: "open", LateWindowMS: 3600000},
	}})
	must(t, err)
	w.path = []budget.Limit{{LimitID: budget.LimitID{Pool: "research", Unit: "tokens", Period: budget.PeriodNone}, Rev: 1}}
	return w
}

func (w *world) makeLedger(t testing.TB) {
	t.Helper()
	_, err := w.js.CreateOrUpdateStream(t.Context(), ledgerConfig())
	must(t, err)
	w.ledger, err = ledger.Open(t.Context(), w.js)
	must(t, err)
}

func ledgerConfig() jetstream.StreamConfig {
	for _, cfg := range topology.Streams(1) {
		if cfg.Name == events.StreamLedger {
			return cfg
		}
	}
	panic("no ledger")
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// reserve makes n reservations, in pipelines.
func (w *world) reserve(t testing.TB, n int) {
	t.Helper()
	for n > 0 {
		b := w.store.Batch()
		pending := make([]*redisx.Pending, min(n, 500))
		for i := range pending {
			w.n++
			agent := budget.Agent{Org: org, ID: fmt.Sprintf("agent-%d", w.n%50)}
			key := fmt.Sprintf("key-%d", w.n)
			pending[i] = b.Reserve(redisx.ReserveArgs{
				Agent: agent, Execution: redisx.ExecutionID(org, agent.ID, "reserve", key), Fingerprint: "0123456789abcdef0123456789abcdef",
				Amounts: budget.Amounts{"tokens": 7}, TTL: time.Hour, Path: w.path, Extra: redisx.Extra{Key: key},
			})
		}
		b.Run(t.Context())
		for _, p := range pending {
			if p.Err != nil || p.Decision.Outcome != budget.Allowed {
				t.Fatalf("reserve: %+v, %v", p.Decision, p.Err)
			}
		}
		n -= len(pending)
	}
}

// run starts a scribe; the returned function stops it and waits.
func (w *world) run(t testing.TB, s *scribe.Scribe) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stopped := false
	stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-done
	}
	t.Cleanup(func() { _ = stop() })
	return stop
}

func (w *world) scribe(t testing.TB) *scribe.Scribe {
	t.Helper()
	s, err := scribe.New(scribe.Config{
		Store: w.store, Ledger: w.ledger, AnchorPath: w.anchor, Losses: &w.losses, Events: &w.told, Log: zerolog.Nop(),
		Retry: 20 * time.Millisecond, GuardEvery: 50 * time.Millisecond, HaltedEvery: 50 * time.Millisecond,
	})
	must(t, err)
	return s
}

// eventually waits for a condition.
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

// tail is the ledger's last stream sequence.
func (w *world) tail(t testing.TB) uint64 {
	t.Helper()
	m, _, err := w.ledger.Tail(t.Context())
	must(t, err)
	return m.StreamSeq
}

func (w *world) verified(t testing.TB, entries uint64) {
	t.Helper()
	v, err := w.ledger.Verify(t.Context(), org)
	must(t, err)
	if v.Verdict != ledger.VerdictOK || v.Entries != entries {
		t.Errorf("chain: %+v, want %d entries", v, entries)
	}
}
