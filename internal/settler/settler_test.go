package settler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"tallystick/internal/registry"
	"tallystick/internal/testkit"
	"tallystick/internal/worker"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
	"tallystick/pkg/redisx"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// directory is a registry in memory.
type directory struct {
	agents map[string]registry.Agent
	pools  map[string]registry.Pool
	down   error
}

func (d *directory) Agent(_ context.Context, _, id string) (registry.Agent, error) {
	if a, ok := d.agents[id]; ok || d.down != nil {
		return a, d.down
	}
	return registry.Agent{}, registry.ErrNotFound
}

func (d *directory) Path(_ context.Context, _, pool string) ([]registry.Pool, error) {
	if p, ok := d.pools[pool]; ok {
		return []registry.Pool{p}, nil
	}
	return nil, registry.ErrNotFound
}

// world is one org with one pool, one agent and its parent.
type world struct {
	*testing.T
	org, agent, parent string
	store              *redisx.Store
	dir                *directory
	now                time.Time
	h                  *Handler
}

func newWorld(t *testing.T) *world {
	t.Helper()
	store, err := redisx.New(redisx.Config{Client: testkit.Redis(t)})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	w := &world{
		T: t, org: "o" + uuid.NewString()[:12], agent: uuid.Must(uuid.NewV7()).String(), parent: uuid.Must(uuid.NewV7()).String(),
		store: store, now: time.Now(), dir: &directory{agents: map[string]registry.Agent{}, pools: map[string]registry.Pool{}},
	}
	if err := store.SetEpoch(t.Context(), store.Partition(w.org), "test"); err != nil {
		t.Fatal(err)
	}
	args := redisx.PolicyArgs{Org: w.org, Pool: "p", Rev: 1, Limits: []redisx.PolicyLimit{
		{Unit: "tokens", Period: budget.PeriodNone, Cap: 1000, OnOverrun: "reject", State: "open"},
	}}
	if _, err := store.ApplyPolicy(t.Context(), args); err != nil {
		t.Fatal(err)
	}
	w.dir.pools["p"] = registry.Pool{Org: w.org, Name: "p", Rev: 1, Limits: []registry.Limit{{Unit: "tokens", Period: budget.PeriodNone}}}
	w.dir.agents[w.parent] = registry.Agent{Org: w.org, ID: w.parent, Pool: "p", Root: w.parent}
	w.dir.agents[w.agent] = registry.Agent{Org: w.org, ID: w.agent, Pool: "p", Root: w.parent, Ancestors: []string{w.parent}}
	w.h, err = NewHandler(Config{Store: store, Registry: w.dir, Now: func() time.Time { return w.now }, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// reserve takes tokens under a key and gives the reservation.
func (w *world) reserve(key string, tokens int64) string {
	w.Helper()
	b := w.store.Batch()
	p := b.Reserve(redisx.ReserveArgs{
		Agent:     budget.Agent{Org: w.org, ID: w.agent, Ancestors: []string{w.parent}},
		Execution: redisx.ExecutionID(w.org, w.agent, "reserve", key), Fingerprint: strings.Repeat("0", 32),
		Amounts: budget.Amounts{"tokens": tokens}, TTL: time.Hour, Extra: redisx.Extra{Key: key},
		Path: []budget.Limit{{LimitID: budget.LimitID{Pool: "p", Unit: "tokens", Period: budget.PeriodNone}, Rev: 1}},
	})
	b.Run(w.Context())
	if p.Err != nil || p.Decision.Outcome != budget.Allowed {
		w.Fatalf("reserve: %+v, %v", p.Decision, p.Err)
	}
	return p.Decision.Reservation
}

func (w *world) request(agent, verb, key, body string) *worker.Request {
	return &worker.Request{Door: worker.Direct, Org: w.org, Agent: agent, Verb: verb, Key: key, Body: []byte(body)}
}

func (w *world) ask(r *worker.Request) (worker.Answer, map[string]any) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 5*time.Second)
	defer cancel()
	a := w.h.Handle(ctx, []*worker.Request{r})[0]
	var body map[string]any
	if len(a.Body) > 0 {
		if err := json.Unmarshal(a.Body, &body); err != nil {
			w.Fatalf("answer %s: %v", a.Body, err)
		}
	}
	return a, body
}

func (w *world) do(verb, key, body string) (worker.Answer, map[string]any) {
	w.Helper()
	return w.ask(w.request(w.agent, verb, key, body))
}

func tokens(body map[string]any, name string) any {
	m, _ := body[name].(map[string]any)
	return m["tokens"]
}

func words(v ...any) string { return strings.TrimSpace(fmt.Sprintln(v...)) }

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestSettle(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.reserve("r", 100)
	a, body := w.do("settle", "s", `{"key":"r","actual":{"tokens":60},"status":"success","usage":{"in":1}}`)
	equal(t, "settle", words(body["outcome"], body["reservation"], tokens(body, "charged"), tokens(body, "returned"), a.Replayed), "settled "+id+" 60 40 false")
	again, second := w.do("settle", "s", `{"status":"success","key":"r","actual":{"tokens":60},"usage":{"in":1}}`)
	equal(t, "replay", words(second["outcome"], tokens(second, "charged"), again.Replayed), "settled 60 true")
	for name, tc := range map[string]struct{ verb, key, body, code string }{
		"other content":          {"settle", "s", `{"key":"r","actual":{"tokens":61}}`, "key_reused"},
		"another key":            {"settle", "s2", `{"reservation":"` + id + `","actual":{"tokens":60}}`, "already_settled"},
		"release after settle":   {"release", "rel", `{"key":"r"}`, "already_settled"},
		"unknown key":            {"settle", "s3", `{"key":"nope"}`, "not_found"},
		"no key":                 {"settle", "", `{"key":"r"}`, "invalid_argument"},
		"neither id nor key":     {"settle", "s4", `{}`, "invalid_argument"},
		"a unit not reserved":    {"settle", "s5", `{"key":"live","actual":{"calls":1}}`, "unit_unknown"},
		"verb of somebody else":  {"reserve", "s6", `{}`, "not_found"},
		"broker field in a body": {"release", "s7", `{"key":"r","agentId":"x"}`, "broker_argument"},
	} {
		if tc.key == "s5" {
			w.reserve("live", 1)
		}
		if a, _ := w.do(tc.verb, tc.key, tc.body); a.Code != tc.code {
			t.Errorf("%s: %s", name, a.Body)
		}
	}
}

func TestRefusedOverrun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.reserve("r", 100)
	a, body := w.do("settle", "s", `{"key":"r","actual":{"tokens":101}}`)
	equal(t, "refused", words(body["outcome"], body["reason"], tokens(body, "authorised"), tokens(body, "actual"), tokens(body, "epsilon")), "denied overrun 100 101 0")
	equal(t, "denied", a.Denied, events.ReasonOverrun)
}

func TestRelease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.reserve("r", 100)
	_, body := w.do("release", "rel", `{"reservation":"`+id+`","reason":"not needed"}`)
	equal(t, "release", words(body["outcome"], tokens(body, "returned")), "released 100")
	// A release that overtakes its reserve leaves a tombstone.
	if a, body := w.do("release", "early", `{"key":"never"}`); body["outcome"] != "released" {
		t.Errorf("tombstone: %s", a.Body)
	}
	if a, _ := w.do("settle", "s", `{"key":"never"}`); a.Code != "already_released" {
		t.Errorf("settle of a tombstone: %s", a.Body)
	}
	if a, _ := w.do("release", "x", `{"reservation":"`+uuid.NewString()+`"}`); a.Code != "not_found" {
		t.Errorf("release of nothing: %s", a.Body)
	}
}

func TestWhoMayResolve(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.reserve("r", 100)
	stranger := uuid.Must(uuid.NewV7()).String()
	w.dir.agents[stranger] = registry.Agent{Org: w.org, ID: stranger, Pool: "p", Root: stranger}
	body := `{"reservation":"` + id + `","actual":{"tokens":1}}`
	foreign, _ := w.ask(w.request(stranger, "settle", "s", body))
	none, _ := w.do("settle", "s", `{"reservation":"`+uuid.NewString()+`","actual":{"tokens":1}}`)
	equal(t, "words", string(foreign.Body), string(none.Body))
	equal(t, "code", foreign.Code, "not_found")
	if a, b := w.ask(w.request(w.parent, "settle", "s", body)); b["outcome"] != "settled" {
		t.Errorf("by the parent: %s", a.Body)
	}
}

func TestUnmatchedAtTheDurableDoor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.request(w.agent, "settle", "s", `{"key":"r"}`)
	r.Door, r.StoredAt, r.Deliveries = worker.Durable, w.now, 1
	a, _ := w.ask(r)
	if a.Retry != retryMin || len(a.Body) != 0 {
		t.Errorf("first delivery: %+v", a)
	}
	r.Deliveries, r.StoredAt = 40, w.now.Add(-30*time.Second)
	if a, _ = w.ask(r); a.Retry != retryMax {
		t.Errorf("later: %+v", a)
	}
	r.StoredAt = w.now.Add(-unmatchedAfter)
	a, _ = w.ask(r)
	equal(t, "given up", words(a.Code, a.Dead, a.EventType), "not_found settle_unmatched settle_unmatched")
	e, err := events.ParseEvent(a.Event)
	if err != nil {
		t.Fatal(err)
	}
	told, ok := e.(events.SettleUnmatched)
	if !ok || told.Agent != w.agent || told.ReserveKey != "r" || told.Key != "s" || told.Org != w.org {
		t.Errorf("event %s", a.Event)
	}
	w.reserve("r", 10)
	if a, b := w.ask(r); b["outcome"] != "settled" {
		t.Errorf("after the reserve: %s", a.Body)
	}
}

func TestOutage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.reserve("r", 10)
	w.dir.down = errors.New("KV is away")
	r := w.request(w.agent, "settle", "s", `{"key":"r"}`)
	if a, _ := w.ask(r); a.Code != "unavailable" {
		t.Errorf("direct door: %s", a.Body)
	}
	r.Door, r.StoredAt = worker.Durable, w.now
	if a, _ := w.ask(r); a.Retry == 0 {
		t.Errorf("durable door: %+v", a)
	}
}

func TestOperators(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.reserve("a", 10)
	w.reserve("b", 10)
	verbs := w.h.AdminVerbs()
	who := `"org":"` + w.org + `","agent":"` + w.agent + `"`
	for verb, want := range map[string]string{"settle": `{` + who + `,"key":"a","actual":{"tokens":4}}`, "release": `{"key":"b",` + who + `}`} {
		body, err := verbs[verb](t.Context(), worker.AdminRequest{Verb: verb, Key: "op", Body: []byte(want)})
		if err != nil || !strings.Contains(string(body), `"outcome":"`+verb[:6]) {
			t.Errorf("%s: %s, %v", verb, body, err)
		}
	}
	_, err := verbs["settle"](t.Context(), worker.AdminRequest{Key: "op2", Body: []byte(`{` + who + `,"key":"a"}`)})
	if !errors.Is(err, &events.Error{Code: events.CodeAlreadySettled}) {
		t.Errorf("again: %v", err)
	}
	_, err = verbs["settle"](t.Context(), worker.AdminRequest{Body: []byte(`{` + who + `,"key":"a"}`)})
	if !errors.Is(err, &events.Error{Code: events.CodeInvalidArgument}) {
		t.Errorf("without key: %v", err)
	}
}
