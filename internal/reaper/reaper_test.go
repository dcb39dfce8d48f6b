package reaper_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"tallystick/internal/ledger"
	"tallystick/internal/reaper"
	"tallystick/internal/scribe"
	"tallystick/internal/testkit"
	"tallystick/internal/topology"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
	"tallystick/pkg/redisx"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const org = "acme"

var agent = budget.Agent{Org: org, ID: "0196b7a0-0000-7000-8000-000000000001"}

type world struct {
	store  *redisx.Store
	client *redis.Client
	ledger *ledger.Ledger
	js     jetstream.JetStream
	path   []budget.Limit
	reaper *reaper.Reaper
}

func newWorld(t testing.TB, turnMax int64) *world {
	t.Helper()
	w := &world{client: testkit.OwnRedis(t).Client(t), js: testkit.NATS(t).JetStream(t)}
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
		must(t, w.store.SetEpoch(t.Context(), p, "e"))
	}
	_, err = w.store.ApplyPolicy(t.Context(), redisx.PolicyArgs{Org: org, Pool: "p", Rev: 1, Limits: []redisx.PolicyLimit{
		{Unit: "tokens", Period: budget.PeriodNone, Cap: 1_000_000, OnOverrun: "reject", State: "open", LateWindowMS: 300},
	}})
	must(t, err)
	w.path = []budget.Limit{{LimitID: budget.LimitID{Pool: "p", Unit: "tokens", Period: budget.PeriodNone}, Rev: 1}}
	w.reaper, err = reaper.New(reaper.Config{
		Store: w.store, Ledger: w.ledger, Events: ledger.NewEvents(w.js), Log: zerolog.Nop(), Every: 20 * time.Millisecond, TurnMax: turnMax,
	})
	must(t, err)
	return w
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func execution(key string) string { return redisx.ExecutionID(org, agent.ID, "reserve", key) }

// reserve holds 10 tokens for a time that may be shorter than the contract's.
func (w *world) reserve(t testing.TB, key string, ttl time.Duration) {
	t.Helper()
	b := w.store.Batch()
	p := b.Reserve(redisx.ReserveArgs{
		Agent: agent, Execution: execution(key), Fingerprint: "ab", Amounts: budget.Amounts{"tokens": 10}, TTL: ttl,
		Path: w.path, Extra: redisx.Extra{Key: key},
	})
	b.Run(t.Context())
	if p.Err != nil || p.Decision.Outcome != budget.Allowed {
		t.Fatalf("reserve: %+v, %v", p.Decision, p.Err)
	}
}

// figures are held and withheld.
func (w *world) figures(t testing.TB) string {
	t.Helper()
	key := fmt.Sprintf("bp:{p%02d}4:acme1:p6:tokens4:none", w.store.Partition(org))
	v, err := w.client.HMGet(t.Context(), key, "held", "withheld").Result()
	must(t, err)
	return fmt.Sprintf("%s %s", v...)
}

func run(t testing.TB, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
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

func TestExpiresWithoutTraffic(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	s, err := scribe.New(scribe.Config{Store: w.store, Ledger: w.ledger, Log: zerolog.Nop()})
	must(t, err)
	run(t, s.Run)
	w.reserve(t, "long", time.Hour)
	w.reserve(t, "short", 50*time.Millisecond)
	run(t, w.reaper.Run)
	eventually(t, "withheld", func() bool { return w.figures(t) == "10 10" })
	eventually(t, "lapsed", func() bool { return w.figures(t) == "10 0" })
	stream, err := w.js.Stream(t.Context(), events.StreamEvents)
	must(t, err)
	var body []byte
	eventually(t, "the event", func() bool {
		m, err := stream.GetLastMsgForSubject(t.Context(), events.Event(org, events.EventReservationExpired))
		if err == nil {
			body = m.Data
		}
		return err == nil
	})
	var e events.ReservationExpired
	must(t, json.Unmarshal(body, &e))
	if e.Reservation != execution("short") || e.Withheld["tokens"] != 10 || e.Key != "short" {
		t.Errorf("event %s", body)
	}
}

// TestPoisonDoesNotBlock: unreadable and missing records stand first in line,
// more of them than one turn takes.
func TestPoisonDoesNotBlock(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4)
	p := w.store.Partition(org)
	for i := range 10 {
		key := fmt.Sprint("bad-", i)
		w.reserve(t, key, time.Millisecond)
		record := fmt.Sprintf("reservation:{p%02d}36:%s", p, execution(key))
		switch i % 3 {
		case 0:
			must(t, w.client.Set(t.Context(), record, "nonsense", 0).Err())
		case 1:
			must(t, w.client.Del(t.Context(), record).Err())
		default:
			must(t, w.client.Del(t.Context(), record).Err())
			must(t, w.client.SAdd(t.Context(), record, "x").Err())
		}
	}
	w.reserve(t, "good", 2*time.Millisecond)
	run(t, w.reaper.Run)
	eventually(t, "the good one is expired", func() bool { return w.figures(t) == "100 10" })
	set, err := w.store.Quarantined(t.Context(), p)
	must(t, err)
	if len(set) != 10 {
		t.Errorf("%d set aside: %v", len(set), set)
	}
}

// TestFailingExpiryIsSetAside: a limit of the wrong type makes the script fail.
func TestFailingExpiryIsSetAside(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	p := w.store.Partition(org)
	w.reserve(t, "stuck", time.Millisecond)
	key := fmt.Sprintf("bp:{p%02d}4:acme1:p6:tokens4:none", p)
	must(t, w.client.Rename(t.Context(), key, "kept").Err())
	must(t, w.client.Set(t.Context(), key, "x", 0).Err())
	run(t, w.reaper.Run)
	eventually(t, "set aside", func() bool {
		set, err := w.store.Quarantined(t.Context(), p)
		return err == nil && set[execution("stuck")] == "expire_failed"
	})
}

func TestFencedPartitionIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	p := w.store.Partition(org)
	w.reserve(t, "a", time.Millisecond)
	must(t, w.store.Fence(t.Context(), p, "rebuild"))
	eventually(t, "it is due", func() bool {
		due, _, err := w.store.Due(t.Context(), 10)
		return err == nil && len(due[p]) == 1
	})
	if _, err := w.reaper.Turn(t.Context()); err == nil {
		t.Error("a turn over a fenced partition reported nothing")
	}
	must(t, w.store.Unfence(t.Context(), p))
	_, err := w.reaper.Turn(t.Context())
	must(t, err)
	if got := w.figures(t); got != "0 10" {
		t.Errorf("figures %s", got)
	}
}
