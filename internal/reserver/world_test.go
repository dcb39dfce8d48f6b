package reserver

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"tallystick/internal/registry"
	"tallystick/internal/testkit"
	"tallystick/internal/worker"
	"tallystick/pkg/budget"
	"tallystick/pkg/redisx"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// directory is a registry in memory. Its cached picture of pools follows the
// truth only on Reload, as a watcher's does some time later.
type directory struct {
	mu      sync.Mutex
	agents  map[string]registry.Agent
	truth   map[string]registry.Pool
	cached  map[string]registry.Pool
	reloads int
	// managers by org and principal; asked counts the questions.
	managers     map[[2]string][]string
	asked        int
	managersDown error
	down         error
}

func (d *directory) Agent(_ context.Context, org, id string) (registry.Agent, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a, ok := d.agents[id]; ok && a.Org == org {
		return a, d.down
	}
	if d.down != nil {
		return registry.Agent{}, d.down
	}
	return registry.Agent{}, registry.ErrNotFound
}

func (d *directory) Path(_ context.Context, _, pool string) ([]registry.Pool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var path []registry.Pool
	for pool != "" {
		p, ok := d.cached[pool]
		if !ok {
			return nil, registry.ErrNotFound
		}
		path, pool = append(path, p), p.Parent
	}
	return path, d.down
}

func (d *directory) Reload(_ context.Context, _, pool string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reloads++
	d.cached[pool] = d.truth[pool]
	return d.down
}

func (d *directory) Manages(_ context.Context, org, principal, agent string) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked++
	return slices.Contains(d.managers[[2]string{org, principal}], agent), d.managersDown
}

// world is one org on a real Redis.
type world struct {
	testing.TB
	org, agent string
	store      *redisx.Store
	dir        *directory
	now        time.Time
	h          *Handler
	keys       int
}

// newWorld has pools root > team > leaf and beside, an agent in team with a
// parent above it.
func newWorld(t testing.TB) *world {
	t.Helper()
	store, err := redisx.New(redisx.Config{Client: testkit.Redis(t)})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	w := &world{
		TB: t, org: "o" + uuid.NewString()[:12], agent: uuid.Must(uuid.NewV7()).String(), store: store, now: time.Now(),
		dir: &directory{agents: map[string]registry.Agent{}, truth: map[string]registry.Pool{}, cached: map[string]registry.Pool{}, managers: map[[2]string][]string{}},
	}
	if err := store.SetEpoch(t.Context(), store.Partition(w.org), "test"); err != nil {
		t.Fatal(err)
	}
	w.pool("root", "", map[string]int64{"tokens": 10_000})
	w.pool("team", "root", map[string]int64{"tokens": 1_000, "calls": 100})
	w.pool("leaf", "team", map[string]int64{"tokens": 500})
	w.pool("beside", "root", map[string]int64{"tokens": 500})
	w.register(w.agent, "team")
	w.h, err = NewHandler(Config{Store: store, Registry: w.dir, Now: func() time.Time { return w.now }, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) register(id, pool string, ancestors ...string) {
	w.dir.agents[id] = registry.Agent{Org: w.org, ID: id, Name: "n", Pool: pool, Root: id, Ancestors: ancestors, Depth: len(ancestors)}
}

// pool makes or changes a pool in Redis and in the truth; the cached picture
// learns of a new pool only.
func (w *world) pool(name, parent string, caps map[string]int64, slots ...registry.Slot) {
	w.Helper()
	p := registry.Pool{Org: w.org, Name: name, Parent: parent, Rev: w.dir.truth[name].Rev + 1, Slots: slots}
	args := redisx.PolicyArgs{Org: w.org, Pool: name, Rev: p.Rev}
	for unit, limit := range caps {
		p.Limits = append(p.Limits, registry.Limit{Unit: unit, Period: budget.PeriodNone, Cap: &limit})
		args.Limits = append(args.Limits, redisx.PolicyLimit{Unit: unit, Period: budget.PeriodNone, Cap: limit, OnOverrun: "reject", State: "open"})
	}
	if res, err := w.store.ApplyPolicy(w.Context(), args); err != nil || !res.Applied {
		w.Fatalf("policy of %s: %+v, %v", name, res, err)
	}
	w.dir.truth[name] = p
	if _, ok := w.dir.cached[name]; !ok {
		w.dir.cached[name] = p
	}
}

func (w *world) request(verb, key, body string) *worker.Request {
	return &worker.Request{Door: worker.Direct, Org: w.org, Agent: w.agent, Verb: verb, Key: key, Body: []byte(body)}
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
	return w.ask(w.request(verb, key, body))
}

// fresh is a key that was not used before.
func (w *world) fresh() string {
	w.keys++
	return fmt.Sprint("key-", w.keys)
}

// held is what a limit holds by balance.
func (w *world) counter(pool, unit, name string) int64 {
	w.Helper()
	for _, p := range w.balance(`{"pool":"leaf"}`) {
		row := p.(map[string]any)
		if row["pool"] == pool && row["unit"] == unit {
			return int64(row[name].(float64))
		}
	}
	w.Fatalf("no limit %s %s", pool, unit)
	return 0
}

func (w *world) balance(body string) []any {
	w.Helper()
	_, b := w.do("balance", "", body)
	rows, ok := b["pools"].([]any)
	if !ok {
		w.Fatalf("balance %v", b)
	}
	return rows
}

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func sorted(v ...string) []string { slices.Sort(v); return v }

func words(v ...any) string { return strings.TrimSpace(fmt.Sprintln(v...)) }
