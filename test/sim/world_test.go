package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"tallystick/pkg/budget"
	"tallystick/pkg/redisx"
)

// server is the one Redis of the run; every history is a fresh org on it.
type server struct {
	client   *redis.Client
	store    *redisx.Store
	clock    string
	position map[int]string // the outbox's end per partition when last read
	outcomes map[string]int // what was seen: a run that saw nothing proves nothing
}

func newServer(t *testing.T, client *redis.Client) *server {
	t.Helper()
	s := &server{
		client: client, clock: "clock:" + uuid.NewString(),
		position: map[int]string{}, outcomes: map[string]int{},
	}
	store, err := redisx.New(redisx.Config{Client: client, Clock: s.clock, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	s.store = store
	if err := store.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	for p := range store.Partitions() {
		if err := store.SetEpoch(t.Context(), p, "sim"); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// common are the outcomes that every long run has.
var common = []string{
	"allowed", "denied budget_exceeded", "denied concurrency_exceeded", "denied frozen", "denied revoked",
	"denied debt", "denied deadline_passed", "denied overrun",
	"settled", "late_settled", "released", "charged", "expired", "replayed",
	budget.ErrNotFound.Error(), budget.ErrKeyReused.Error(), budget.ErrAlreadySettled.Error(),
	budget.ErrAlreadyReleased.Error(), budget.ErrAlreadyExpired.Error(), budget.ErrStalePolicy.Error(),
}

// report fails a run in which an outcome never occurred.
func (s *server) report(t *testing.T, more ...string) {
	t.Helper()
	var never []string
	for _, o := range slices.Concat(common, more) {
		if s.outcomes[o] == 0 {
			never = append(never, o)
		}
	}
	t.Logf("outcomes: %v", s.outcomes)
	if len(never) > 0 && s.outcomes["histories"] >= checksDefault && !t.Failed() {
		t.Errorf("never seen in %d histories: %v", s.outcomes["histories"], never)
	}
}

// world is one history: an org with three pools and five agents.
type world struct {
	*server
	ctx     context.Context
	org     string
	model   *budget.Model
	fold    budget.Fold
	nowMS   int64
	part    int
	paths   map[string][]budget.LimitID // pool -> the limits from it to its root
	slots   map[string][]budget.Slot    // pool -> the slots of its path
	revs    map[string]int64
	rules   map[string]map[budget.LimitID]budget.LimitPolicy // pool -> its limits
	agents  []budget.Agent
	spy     budget.Agent      // of another org
	homes   map[string]string // agent -> the pool it draws on, where it has one
	settler map[string]budget.Agent
	states  map[string]budget.State
	known   []string       // executions that something was done to
	wanted  []budget.Entry // what the step should have told
	last    func(*rapid.T)
	before  map[budget.LimitID]int64 // what each limit had committed before this step
	mayPass bool                     // this step may pass a cap
}

func limitID(pool, unit string) budget.LimitID {
	return budget.LimitID{Pool: pool, Unit: unit, Period: budget.PeriodNone}
}

// pools lead to their root: team and lab are under root, which counts two
// units; lab itself counts two as well.
var (
	poolPaths = map[string][]budget.LimitID{
		"team": {limitID("team", "usd"), limitID("root", "tok"), limitID("root", "usd")},
		"lab":  {limitID("lab", "ms"), limitID("lab", "usd"), limitID("root", "tok"), limitID("root", "usd")},
		"root": {limitID("root", "tok"), limitID("root", "usd")},
	}
	poolSlots = map[string][]budget.Slot{
		"team": {{Pool: "team", Pattern: "*", Max: 1}, {Pool: "root", Pattern: "gpt*", Max: 2}},
		"lab":  {{Pool: "root", Pattern: "gpt*", Max: 2}},
		"root": {{Pool: "root", Pattern: "gpt*", Max: 2}},
	}
)

// newWorld has three pools and five agents, who were never registered.
func newWorld(rt *rapid.T, s *server) *world {
	w := newOrg(rt, s, poolPaths, poolSlots, map[string]int64{"team": 100, "lab": 200, "root": 300})
	id := func(name string) string { return w.org + "-" + name }
	w.agents = []budget.Agent{
		{Org: w.org, ID: id("boss")},
		{Org: w.org, ID: id("alice"), Ancestors: []string{id("boss")}},
		{Org: w.org, ID: id("kid"), Ancestors: []string{id("alice"), id("boss")}},
		{Org: w.org, ID: id("bob")},
	}
	return w
}

func newOrg(rt *rapid.T, s *server, paths map[string][]budget.LimitID, slots map[string][]budget.Slot, caps map[string]int64) *world {
	org := "o" + strings.ReplaceAll(uuid.NewString(), "-", "")[:24]
	w := &world{
		server: s, ctx: context.Background(), org: org, model: budget.NewModel(org), fold: budget.Fold{},
		nowMS: 1_800_000_000_000, part: s.store.Partition(org), revs: map[string]int64{},
		paths: maps.Clone(paths), slots: maps.Clone(slots),
		rules: map[string]map[budget.LimitID]budget.LimitPolicy{}, before: map[budget.LimitID]int64{},
		states: map[string]budget.State{}, homes: map[string]string{}, settler: map[string]budget.Agent{},
	}
	s.outcomes["histories"]++
	w.spy = budget.Agent{Org: "foreign" + org[:8], ID: org + "-spy"}
	w.jump(rt, 0)
	for pool, limit := range caps {
		rules := map[budget.LimitID]budget.LimitPolicy{}
		for _, id := range w.paths[pool] {
			if id.Pool == pool {
				rules[id] = budget.LimitPolicy{MaxTotal: limit, Epsilon: 5, LateWindowMS: time.Hour.Milliseconds()}
			}
		}
		w.setPolicy(rt, pool, rules)
	}
	return w
}

func (w *world) jump(rt *rapid.T, d time.Duration) {
	w.nowMS += d.Milliseconds()
	if err := w.client.Set(w.ctx, w.clock, fmt.Sprint(w.nowMS*1000), 0).Err(); err != nil {
		rt.Fatal(err)
	}
	for _, execution := range w.model.Forgotten(w.nowMS) {
		// Redis forgets by its own clock, which the test cannot move.
		if err := w.client.Del(w.ctx, w.recordKey(execution)).Err(); err != nil {
			rt.Fatal(err)
		}
	}
	for _, execution := range w.model.ForgottenRegistrations(w.nowMS) {
		if err := w.client.Del(w.ctx, w.key("registration", execution)).Err(); err != nil {
			rt.Fatal(err)
		}
	}
}

// key is a key as lua/README.md describes it, written down a second time.
func (w *world) key(kind string, parts ...string) string {
	key := fmt.Sprintf("%s:{p%02d}", kind, w.part)
	for _, part := range parts {
		key += fmt.Sprintf("%d:%s", len(part), part)
	}
	return key
}

func (w *world) recordKey(execution string) string { return w.key("reservation", execution) }

func (w *world) limitKey(id budget.LimitID) string {
	return w.key("bp", w.org, id.Pool, id.Unit, id.Period)
}

func (w *world) setPolicy(rt *rapid.T, pool string, rules map[budget.LimitID]budget.LimitPolicy) {
	w.revs[pool]++
	w.rules[pool] = rules
	args := redisx.PolicyArgs{Org: w.org, Pool: pool, Rev: w.revs[pool]}
	for _, id := range w.paths[pool] {
		p, ours := rules[id]
		if !ours {
			continue
		}
		p.Rev = args.Rev
		limit := redisx.PolicyLimit{
			Unit: id.Unit, Period: id.Period, Cap: p.MaxTotal, Epsilon: p.Epsilon, LateWindowMS: p.LateWindowMS,
			OnOverrun: "reject", State: "open",
		}
		if p.ChargeOver {
			limit.OnOverrun = "charge"
		}
		switch {
		case p.Closed:
			limit.State = "closed"
		case p.Frozen:
			limit.State = "frozen"
		}
		args.Limits = append(args.Limits, limit)
		w.model.SetPolicy(w.nowMS, id, p)
	}
	if _, err := w.store.ApplyPolicy(w.ctx, args); err != nil {
		rt.Fatal(err)
	}
	w.mayPass = true
}

// check runs after every step.
func (w *world) check(rt *rapid.T) {
	w.checkEntries(rt, w.foldOutbox(rt))
	ids := w.model.Limits()
	rows, err := w.store.Balances(w.ctx, w.org, ids)
	if err != nil {
		rt.Fatal(err)
	}
	for i, id := range ids {
		want, _ := w.model.Counters(id)
		got := rows[i].Counters
		if got != want {
			rt.Fatalf("%s %s: scripts %+v, model %+v", id.Pool, id.Unit, got, want)
		}
		if fold := w.fold[budget.Counter{Org: w.org, LimitID: id}]; fold != got {
			rt.Fatalf("%s %s: counters %+v, fold of the entries %+v", id.Pool, id.Unit, got, fold)
		}
		if got.Held < 0 || got.Spent < 0 || got.Withheld < 0 {
			rt.Fatalf("%s %s: negative: %+v", id.Pool, id.Unit, got)
		}
		committed := got.Held + got.Spent + got.Withheld
		if committed > got.Cap+got.Adj && committed > w.before[id] && !w.mayPass {
			rt.Fatalf("%s %s: passed its cap: %+v, before %d", id.Pool, id.Unit, got, w.before[id])
		}
		w.before[id] = committed
	}
	w.mayPass = false
	records := w.checkRecords(rt)
	w.checkSlots(rt, records)
}

// checkRecords compares the state and the retention of every record.
func (w *world) checkRecords(rt *rapid.T) (held map[string]redisx.Record) {
	held = map[string]redisx.Record{}
	batch := w.store.Batch()
	read := make([]*redisx.PendingRecord, len(w.known))
	for i, execution := range w.known {
		read[i] = batch.Record(w.org, execution)
	}
	batch.Run(w.ctx)
	for i, execution := range w.known {
		got, want := read[i].Record.State, w.model.State(w.nowMS, execution)
		if got != want {
			rt.Fatalf("%s: scripts say %q (%v), model %q", execution, got, read[i].Err, want)
		}
		if want != w.states[execution] {
			w.states[execution] = want
			w.checkRetention(rt, execution)
		}
		if want == budget.StateHeld {
			held[execution] = read[i].Record
		}
	}
	return held
}

// checkRetention compares how long a record will be kept, just after it has
// changed its state: later the test's clock and Redis's own have parted.
func (w *world) checkRetention(rt *rapid.T, execution string) {
	want, remembered := w.model.Keeps(w.nowMS, execution)
	if !remembered {
		return
	}
	got, err := w.client.PTTL(w.ctx, w.recordKey(execution)).Result()
	if err != nil {
		rt.Fatal(err)
	}
	if want == 0 {
		want = -1 // go-redis's word for no expiry
	}
	if got > want || got < want-time.Minute {
		rt.Fatalf("%s is %s and kept for %s, model %s", execution, w.states[execution], got, want)
	}
}

// foldOutbox reads what was appended since the last look.
func (w *world) foldOutbox(rt *rapid.T) (came []budget.Entry) {
	for {
		page, err := w.store.OutboxRead(w.ctx, w.part, w.position[w.part], 500)
		if err != nil {
			rt.Fatal(err)
		}
		if len(page.Corrupt) > 0 {
			rt.Fatalf("unreadable entries: %+v", page.Corrupt)
		}
		for _, e := range page.Entries {
			w.position[w.part] = e.OutboxID
			if e.Org == w.org {
				w.fold.Apply(e)
				came = append(came, e)
			}
		}
		if len(page.Entries) < 500 {
			return came
		}
	}
}

// poolOf is mostly the pool an agent draws on.
func (w *world) poolOf(rt *rapid.T, a budget.Agent) string {
	if home, ok := w.homes[a.ID]; ok && !chance(rt, "another pool", 3) {
		return home
	}
	return w.pool(rt)
}

func (w *world) pool(rt *rapid.T) string {
	return rapid.SampledFrom(slices.Sorted(maps.Keys(w.paths))).Draw(rt, "pool")
}

// path is a pool's path at the revisions the worker knows; seldom stale.
func (w *world) path(rt *rapid.T, pool string) []budget.Limit {
	path := make([]budget.Limit, len(w.paths[pool]))
	stale := chance(rt, "stale", 5)
	for i, id := range w.paths[pool] {
		path[i] = budget.Limit{LimitID: id, Rev: w.revs[id.Pool]}
		if stale {
			path[i].Rev--
		}
	}
	return path
}
