package registrar_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"tallystick/internal/registrar"
	"tallystick/internal/registry"
	"tallystick/internal/testkit"
	"tallystick/internal/topology"
	"tallystick/internal/worker"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
	"tallystick/pkg/redisx"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const waitMax = 10 * time.Second

// world is an installation with one org and a running registrar.
type world struct {
	t     testing.TB
	org   string
	nats  *testkit.NATSServer
	js    jetstream.JetStream
	redis *redis.Client
	store *redisx.Store
	dir   *registry.Directory
	reg   *registrar.Registrar
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := newWorldOn(t, testkit.Redis(t))
	w.run(t)
	w.ok(events.AdminOrgCreate, `{"org":"`+w.org+`"}`, nil)
	return w
}

// newWorldOn is a world without an org whose registrar does not run.
func newWorldOn(t testing.TB, client *redis.Client) *world {
	t.Helper()
	w := &world{t: t, org: "o" + strings.ReplaceAll(uuid.NewString(), "-", "")[:20], nats: testkit.NATS(t), redis: client}
	w.js = w.nats.JetStream(t)
	for _, bucket := range topology.Buckets() {
		_, err := w.js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: bucket})
		must(t, err)
	}
	for _, stream := range topology.Streams(1) {
		if stream.Name == events.StreamDecisions {
			_, err := w.js.CreateStream(t.Context(), stream)
			must(t, err)
		}
	}
	var err error
	w.dir, err = registry.OpenDirectory(t.Context(), w.js)
	must(t, err)
	w.store, err = redisx.New(redisx.Config{Client: client})
	must(t, err)
	must(t, w.store.Load(t.Context()))
	w.reg = w.registrar(t)
	return w
}

func (w *world) registrar(t testing.TB) *registrar.Registrar {
	t.Helper()
	r, err := registrar.New(registrar.Config{
		Store: w.store, Directory: w.dir, Consumers: registry.NewConsumers(w.js), Log: zerolog.Nop(), ApplyEvery: 20 * time.Millisecond, RetryEvery: 5 * time.Millisecond,
	})
	must(t, err)
	return r
}

// run runs the registrar until the returned function is called, or the test
// ends, and returns when it is ready.
func (w *world) run(t testing.TB) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		if err := w.reg.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(stop)
	eventually(t, "the registrar is ready", func() bool { return w.reg.Ready() == nil })
	return stop
}

// ask sends an operator's request, with O standing for the org.
func (w *world) ask(verb, body string, into any) error {
	w.t.Helper()
	answer, err := w.reg.Verbs()[verb](w.t.Context(), worker.AdminRequest{Verb: verb, By: events.ByOperator, Body: []byte(strings.ReplaceAll(body, `"O"`, `"`+w.org+`"`))})
	if err != nil || into == nil {
		return err
	}
	must(w.t, json.Unmarshal(answer, into))
	return nil
}

func (w *world) ok(verb, body string, into any) {
	w.t.Helper()
	if err := w.ask(verb, body, into); err != nil {
		w.t.Fatalf("%s %s: %v", verb, body, err)
	}
}

// refused is the code and field of the error that a request is refused with.
func (w *world) refused(verb, body string) string {
	w.t.Helper()
	err := w.ask(verb, body, nil)
	var e *events.Error
	if !errors.As(err, &e) {
		w.t.Errorf("%s %s: %v", verb, body, err)
		return ""
	}
	return strings.TrimSpace(string(e.Code) + " " + e.Field)
}

func (w *world) pool(name string, limit int64) budget.Limit {
	w.t.Helper()
	body, err := json.Marshal(events.PoolCreate{Org: w.org, Pool: name, Limits: []events.LimitSpec{{Unit: "tokens", Cap: &limit}}})
	must(w.t, err)
	w.ok(events.AdminPoolCreate, string(body), nil)
	return budget.Limit{LimitID: budget.LimitID{Pool: name, Unit: "tokens", Period: budget.PeriodNone}, Rev: 1}
}

func (w *world) agent(parent string) events.AgentRegisterAnswer {
	w.t.Helper()
	var a events.AgentRegisterAnswer
	body := `{"org":"O","name":"n","pool":"p"}`
	if parent != "" {
		body = `{"org":"O","name":"n","pool":"p","parent":"` + parent + `"}`
	}
	w.ok(events.AdminAgentRegister, body, &a)
	return a
}

// reserve takes n tokens as an agent, from a path of one limit.
func (w *world) reserve(agent, key string, limit budget.Limit, n int64) budget.Decision {
	w.t.Helper()
	a, _, err := w.dir.Agent(w.t.Context(), w.org, agent)
	must(w.t, err)
	b := w.store.Batch()
	p := b.Reserve(redisx.ReserveArgs{
		Agent: budget.Agent{Org: w.org, ID: agent, Ancestors: a.Ancestors}, Execution: redisx.ExecutionID(w.org, agent, "reserve", key),
		Fingerprint: "f", Path: []budget.Limit{limit}, Amounts: budget.Amounts{"tokens": n}, TTL: time.Minute,
	})
	b.Run(w.t.Context())
	must(w.t, p.Err)
	return p.Decision
}

// row is the figures of a pool's only limit, from Redis.
func (w *world) row(limit budget.Limit) budget.PoolRow {
	w.t.Helper()
	rows, err := w.store.Balances(w.t.Context(), w.org, []budget.LimitID{limit.LimitID})
	must(w.t, err)
	return rows[0]
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits for a condition that another goroutine brings about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitMax)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("never: %s", what)
		case <-tick.C:
		}
	}
}
