package registrar_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tallystick/internal/registry"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
)

func TestOrgCreateIsIdempotent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var got events.OrgCreateAnswer
	w.ok(events.AdminOrgCreate, `{"org":"O"}`, &got)
	if got.Outcome != "created" || got.Org != w.org {
		t.Errorf("%+v", got)
	}
	if r := w.refused(events.AdminOrgCreate, `{"org":"O","display":"Another"}`); r != "invalid_argument display" {
		t.Error(r)
	}
	if r := w.refused(events.AdminOrgCreate, `{"org":"Not An Org"}`); r != "invalid_argument org" {
		t.Error(r)
	}
}

func TestPoolCreateHasDefaultsAndOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	body := `{"org":"O","pool":"research team","limits":[{"unit":"usd_microcents","cap":500},{"unit":"tokens","cap":null,"epsilon":7,"on_overrun":"charge","late_window_ms":0}],
		"slots":[{"pattern":"openai/*","max":2},{"pattern":"*","max":9}]}`
	var got events.PoolAnswer
	w.ok(events.AdminPoolCreate, body, &got)
	limit := int64(500)
	want := events.PoolAnswer{Outcome: "created", Pool: events.Pool{
		Org: w.org, Pool: "research team", Rev: 1,
		Limits: []events.PoolLimit{
			{Unit: "tokens", Period: "none", Epsilon: 7, OnOverrun: "charge", Remaining: budget.MaxAmount},
			{Unit: "usd_microcents", Period: "none", Cap: &limit, Epsilon: 1_000_000, OnOverrun: "reject", LateWindowMS: 3_600_000, Remaining: 500},
		},
		Slots: []events.Slot{{Pattern: "*", Max: 9}, {Pattern: "openai/*", Max: 2}},
	}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	// The same again, in another order, is the same; anything else is not.
	var again events.PoolAnswer
	w.ok(events.AdminPoolCreate, body, &again)
	if d := cmp.Diff(want, again); d != "" {
		t.Error(d)
	}
	if r := w.refused(events.AdminPoolCreate, strings.Replace(body, "500", "501", 1)); r != "invalid_argument pool" {
		t.Error(r)
	}
	var shown events.PoolShowAnswer
	w.ok(events.AdminPoolShow, `{"org":"O"}`, &shown)
	if d := cmp.Diff([]events.Pool{want.Pool}, shown.Pools); d != "" {
		t.Error(d)
	}
}

// TestBadInputChangesNothing: each is refused by name, and no pool, limit or
// entry is there afterwards.
func TestBadInputChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.pool("p", 10)
	limits := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`{"unit":"u%d","cap":1}`, i))
		}
		return strings.Join(all, ",")
	}
	create := func(rest string) string { return `{"org":"O","pool":"x",` + rest + `}` }
	for _, c := range []struct{ verb, body, want string }{
		{events.AdminPoolCreate, create(`"limits":[]`), "invalid_argument limits"},
		{events.AdminPoolCreate, create(`"limits":[{"unit":"u"}]`), "invalid_argument limits.cap"},
		{events.AdminPoolCreate, create(`"limits":[{"unit":"u","cap":-1}]`), "invalid_argument limits.cap"},
		{events.AdminPoolCreate, create(`"limits":[{"unit":"u","cap":9007199254740992}]`), "invalid_argument limits.cap"},
		{events.AdminPoolCreate, create(`"limits":[{"unit":"U","cap":1}]`), "invalid_argument limits.unit"},
		{events.AdminPoolCreate, create(`"limits":[{"unit":"u","cap":1,"epsilon":-1}]`), "invalid_argument limits.epsilon"},
		{events.AdminPoolCreate, create(`"limits":[{"unit":"u","cap":1,"on_overrun":"maybe"}]`), "invalid_argument limits.on_overrun"},
		{events.AdminPoolCreate, create(`"limits":[{"unit":"u","cap":1,"late_window_ms":-1}]`), "invalid_argument limits.late_window_ms"},
		{events.AdminPoolCreate, create(`"limits":[{"unit":"u","cap":1,"period":"day"}]`), "invalid_argument limits.period"},
		{events.AdminPoolCreate, create(`"limits":[{"unit":"u","cap":1},{"unit":"u","cap":2}]`), "invalid_argument limits"},
		{events.AdminPoolCreate, create(`"limits":[` + limits(33) + `]`), "invalid_argument limits"},
		{events.AdminPoolCreate, create(`"limits":[{"unit":"u","cap":1}],"slots":[{"pattern":"*","max":0}]`), "invalid_argument slots.max"},
		{events.AdminPoolCreate, create(`"limits":[{"unit":"u","cap":1}],"slots":[{"pattern":"` + strings.Repeat("x", 65) + `","max":1}]`), "invalid_argument slots.pattern"},
		{events.AdminPoolCreate, create(`"limits":[{"unit":"u","cap":1}],"slots":[{"pattern":"a","max":1},{"pattern":"a","max":2}]`), "invalid_argument slots"},
		{events.AdminPoolCreate, create(`"limits":[{"unit":"u","cap":1}],"parent":"nowhere"`), "not_found parent"},
		{events.AdminPoolCreate, create(`"limits":[{"unit":"u","cap":1}],"parent":"x"`), "not_found parent"},
		{events.AdminPoolCreate, `{"org":"nobody","pool":"x","limits":[{"unit":"u","cap":1}]}`, "not_found org"},
		{events.AdminPoolSet, `{"org":"O","pool":"x","cap":1}`, "not_found pool"},
		{events.AdminPoolSet, `{"org":"O","pool":"p"}`, "invalid_argument"},
		{events.AdminPoolSet, `{"org":"O","pool":"p","unit":"calls","cap":1}`, "invalid_argument unit"},
		{events.AdminPoolSet, `{"org":"O","pool":"p","period":"day","cap":1}`, "invalid_argument period"},
		{events.AdminPoolSet, `{"org":"O","pool":"p","late_window_ms":-1}`, "invalid_argument late_window_ms"},
		{events.AdminPoolFreeze, `{"org":"O","pool":"x"}`, "not_found pool"},
		{events.AdminPoolUnfreeze, `{"org":"O"}`, "invalid_argument pool"},
		{events.AdminPoolShow, `{"org":"O","pool":"x"}`, "not_found pool"},
		{events.AdminPoolShow, `{"org":"nobody"}`, "not_found org"},
	} {
		if got := w.refused(c.verb, c.body); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.verb, c.body, got, c.want)
		}
	}
	var shown events.PoolShowAnswer
	w.ok(events.AdminPoolShow, `{"org":"O"}`, &shown)
	if len(shown.Pools) != 1 || shown.Pools[0].Rev != 1 || shown.Pools[0].Limits[0].Remaining != 10 {
		t.Errorf("%+v", shown)
	}
	w.ok(events.AdminPoolCreate, create(`"limits":[`+limits(32)+`]`), nil)
}

func TestPoolDepthIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	parent := ""
	for i := range registry.PoolDepthMax {
		w.ok(events.AdminPoolCreate, fmt.Sprintf(`{"org":"O","pool":"p%d",%s"limits":[{"unit":"u","cap":1}]}`, i, parent), nil)
		parent = fmt.Sprintf(`"parent":"p%d",`, i)
	}
	if r := w.refused(events.AdminPoolCreate, `{"org":"O","pool":"deep",`+parent+`"limits":[{"unit":"u","cap":1}]}`); r != "limit_exceeded pool depth" {
		t.Error(r)
	}
}

func TestPoolSetChangesWhatItNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(events.AdminPoolCreate, `{"org":"O","pool":"p","limits":[{"unit":"tokens","cap":10},{"unit":"calls","cap":5}],"slots":[{"pattern":"*","max":3}]}`, nil)
	set := func(rest string) events.Pool {
		var a events.PoolAnswer
		w.ok(events.AdminPoolSet, `{"org":"O","pool":"p",`+rest+`}`, &a)
		return a.Pool
	}
	if r := w.refused(events.AdminPoolSet, `{"org":"O","pool":"p","cap":1}`); r != "invalid_argument unit" {
		t.Error(r)
	}
	p := set(`"unit":"tokens","cap":null`)
	if p.Rev != 2 || p.Limits[1].Cap != nil || *p.Limits[0].Cap != 5 || p.Limits[1].Remaining != budget.MaxAmount || len(p.Slots) != 1 {
		t.Errorf("cap taken away: %+v", p)
	}
	if p := set(`"unit":"tokens","cap":null`); p.Rev != 2 {
		t.Errorf("the same again made revision %d", p.Rev)
	}
	if p := set(`"slots":[]`); p.Rev != 3 || len(p.Slots) != 0 {
		t.Errorf("slots taken away: %+v", p)
	}
	p = set(`"unit":"calls","epsilon":2,"on_overrun":"charge","late_window_ms":9,"slots":[{"pattern":"a","max":1}]`)
	if l := p.Limits[0]; p.Rev != 4 || l.Epsilon != 2 || l.OnOverrun != "charge" || l.LateWindowMS != 9 || *l.Cap != 5 || len(p.Slots) != 1 {
		t.Errorf("rules: %+v", p)
	}
}

// TestFreezeStopsReserves: from the answer on, and until unfrozen.
func TestFreezeStopsReserves(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	limit := w.pool("p", 10)
	a := w.agent("").Agent
	for i, step := range []struct {
		verb, outcome string
		frozen        bool
		want          budget.Outcome
	}{
		{events.AdminPoolFreeze, "frozen", true, budget.Refused}, {events.AdminPoolUnfreeze, "unfrozen", false, budget.Allowed},
	} {
		var got, again events.PoolAnswer
		w.ok(step.verb, `{"org":"O","pool":"p"}`, &got)
		w.ok(step.verb, `{"org":"O","pool":"p"}`, &again)
		if got.Pool.Frozen != step.frozen || got.Pool.Rev != int64(i+2) || again.Pool.Rev != got.Pool.Rev || got.Outcome != step.outcome {
			t.Errorf("%+v, then %+v", got, again)
		}
		limit.Rev = got.Pool.Rev
		if d := w.reserve(a, step.verb, limit, 1); d.Outcome != step.want {
			t.Errorf("after %s: %+v", step.verb, d)
		}
	}
}

// TestChangesAtOnceAllLand: each is on top of another, in KV and in Redis.
func TestChangesAtOnceAllLand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.pool("p", 10)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			if err := w.ask(events.AdminPoolSet, fmt.Sprintf(`{"org":"O","pool":"p","cap":%d}`, 100+i), nil); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	p, _, err := w.dir.Pool(t.Context(), w.org, "p")
	must(t, err)
	row := w.row(budget.Limit{LimitID: budget.LimitID{Pool: "p", Unit: "tokens", Period: "none"}})
	if p.Rev != 5 || row.Cap != *p.Limits[0].Cap {
		t.Errorf("revision %d, cap %d in KV and %d in Redis", p.Rev, *p.Limits[0].Cap, row.Cap)
	}
}

// TestKVBehindRedisIsRefused: KV was set back; what Redis knows stays.
func TestKVBehindRedisIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	limit := w.pool("p", 10)
	first, _, err := w.dir.Pool(t.Context(), w.org, "p")
	must(t, err)
	w.ok(events.AdminPoolSet, `{"org":"O","pool":"p","cap":20}`, nil)
	_, revision, err := w.dir.Pool(t.Context(), w.org, "p")
	must(t, err)
	must(t, w.dir.UpdatePool(t.Context(), first, revision))
	err = w.ask(events.AdminPoolSet, `{"org":"O","pool":"p","cap":30}`, nil)
	var e *events.Error
	if err == nil || errors.As(err, &e) {
		t.Errorf("set: %v", err)
	}
	p, _, err := w.dir.Pool(t.Context(), w.org, "p")
	must(t, err)
	if p.Rev != 1 || w.row(limit).Cap != 20 {
		t.Errorf("KV revision %d, cap %d", p.Rev, w.row(limit).Cap)
	}
	if err := w.reg.ApplyAll(t.Context()); err == nil {
		t.Error("a pass over a pool that is behind succeeded")
	}
}
