package registrar_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"tallystick/internal/registrar"
	"tallystick/internal/testkit"
	"tallystick/internal/worker"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
)

func TestConfigSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	if _, err := registrar.New(registrar.Config{}); err == nil {
		t.Error("made without a store")
	}
}

// TestEveryPartitionGetsItsEpoch: in KV and in Redis the same.
func TestEveryPartitionGetsItsEpoch(t *testing.T) {
	t.Parallel()
	w := newWorldOn(t, testkit.OwnRedis(t).Client(t))
	if w.reg.Ready() == nil {
		t.Error("ready before it ran")
	}
	w.run(t)
	for p := range w.store.Partitions() {
		kv, err := w.dir.Epoch(t.Context(), p)
		must(t, err)
		in, err := w.store.Epoch(t.Context(), p)
		must(t, err)
		if kv == "" || kv != in {
			t.Errorf("partition %d: %q in KV, %q in Redis", p, kv, in)
		}
	}
}

// TestEmptiedRedisIsLeftAlone: the epoch is not written again, so nothing is
// decided until the rebuild; after it the policies are there by themselves.
func TestEmptiedRedisIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorldOn(t, testkit.OwnRedis(t).Client(t))
	stop := w.run(t)
	w.ok(events.AdminOrgCreate, `{"org":"O"}`, nil)
	limit := w.pool("p", 10)
	a := w.agent("").Agent
	stop()
	must(t, w.redis.FlushAll(t.Context()).Err())
	w.reg = w.registrar(t)
	w.run(t)
	if epoch, err := w.store.Epoch(t.Context(), w.store.Partition(w.org)); err != nil || epoch != "" {
		t.Fatalf("epoch %q, %v", epoch, err)
	}
	for verb, body := range map[string]string{
		events.AdminPoolSet: `{"org":"O","pool":"p","cap":11}`, events.AdminPoolShow: `{"org":"O"}`,
		events.AdminPoolCreate:    `{"org":"O","pool":"q","limits":[{"unit":"u","cap":1}]}`,
		events.AdminAgentRegister: `{"org":"O","name":"n","pool":"p"}`, events.AdminAgentRevoke: `{"org":"O","agent":"` + a + `"}`,
	} {
		if r := w.refused(verb, body); r != "unavailable" {
			t.Errorf("%s: %s", verb, r)
		}
	}
	p, _, err := w.dir.Pool(t.Context(), w.org, "p")
	must(t, err)
	if p.Rev != 1 {
		t.Errorf("revision %d", p.Rev)
	}
	for partition := range w.store.Partitions() {
		epoch, err := w.dir.Epoch(t.Context(), partition)
		must(t, err)
		must(t, w.store.SetEpoch(t.Context(), partition, epoch))
	}
	eventually(t, "the pool is back", func() bool { return w.row(limit).Cap == 10 })
	w.ok(events.AdminPoolShow, `{"org":"O","pool":"q"}`, nil)
}

// TestAPassHealsACrashBetweenKVAndRedis: the pool is in KV, and its script
// never ran.
func TestAPassHealsACrashBetweenKVAndRedis(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	limit := w.pool("p", 10)
	p, revision, err := w.dir.Pool(t.Context(), w.org, "p")
	must(t, err)
	changed := int64(20)
	p.Rev, p.Limits[0].Cap = 2, &changed
	must(t, w.dir.UpdatePool(t.Context(), p, revision))
	eventually(t, "the change is in Redis", func() bool { return w.row(limit).Cap == 20 })
}

// TestEpochWaitsForRedis: the registrar that made an epoch writes it, however
// long Redis is away.
func TestEpochWaitsForRedis(t *testing.T) {
	t.Parallel()
	server := testkit.OwnRedis(t)
	w := newWorldOn(t, server.Client(t))
	server.Kill()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = w.reg.Run(ctx) })
	defer running.Wait()
	defer cancel()
	eventually(t, "KV has the last partition's epoch", func() bool {
		epoch, err := w.dir.Epoch(t.Context(), w.store.Partitions()-1)
		return err == nil && epoch != ""
	})
	if w.reg.Ready() == nil {
		t.Error("ready without Redis")
	}
	server.Restart(t)
	eventually(t, "it is ready", func() bool { return w.reg.Ready() == nil })
	for p := range w.store.Partitions() {
		if epoch, err := w.store.Epoch(t.Context(), p); err != nil || epoch == "" {
			t.Errorf("partition %d: %q, %v", p, epoch, err)
		}
	}
}

func TestServesOperators(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin, err := worker.NewAdmin(worker.AdminConfig{
		Name: "registrar", Conn: w.nats.Connect(t, testkit.Admin), Verbs: w.reg.Verbs(), Timeout: registrar.AdminTimeout, Log: zerolog.Nop(),
	})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := admin.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	defer running.Wait()
	defer cancel()
	<-admin.Started()
	nc := w.nats.Connect(t, testkit.Admin, nats.CustomInboxPrefix("_INBOX.admin"))
	ask := func(verb, body string) []byte {
		m, err := nc.RequestWithContext(t.Context(), events.Admin(verb), []byte(body))
		must(t, err)
		return m.Data
	}
	created, err := events.ParsePoolAnswer(ask(events.AdminPoolCreate, fmt.Sprintf(`{"org":%q,"pool":"p","limits":[{"unit":"tokens","cap":3}]}`, w.org)))
	if err != nil || created.Pool.Limits[0].Remaining != 3 {
		t.Errorf("%+v, %v", created, err)
	}
	_, err = events.ParsePoolAnswer(ask(events.AdminPoolSet, fmt.Sprintf(`{"org":%q,"pool":"x","cap":3}`, w.org)))
	var e *events.Error
	if !errors.As(err, &e) || e.Code != events.CodeNotFound {
		t.Errorf("%v", err)
	}
	if row := w.row(budget.Limit{LimitID: budget.LimitID{Pool: "p", Unit: "tokens", Period: budget.PeriodNone}}); row.Cap != 3 {
		t.Errorf("%+v", row)
	}
}

func TestCollectorsRegister(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	registry := prometheus.NewRegistry()
	for _, c := range w.reg.Collectors() {
		must(t, registry.Register(c))
	}
}
