package redisx

import (
	"testing"

	"tallystick/pkg/budget"
)

// TestCollidingKeys: limits whose names run into each other under naive
// joining keep a cap and counters of their own.
func TestCollidingKeys(t *testing.T) {
	t.Parallel()
	pairs := []struct {
		name string
		a, b budget.LimitID
	}{
		{"a separator in the pool, in the unit", budget.LimitID{Pool: "a:b", Unit: "c"}, budget.LimitID{Pool: "a", Unit: "b:c"}},
		{"no separator at all", budget.LimitID{Pool: "ab", Unit: "c"}, budget.LimitID{Pool: "a", Unit: "bc"}},
		{"a digit that looks like a length", budget.LimitID{Pool: "1:a", Unit: "u"}, budget.LimitID{Pool: "a", Unit: "1:u"}},
		{"a whole part that looks like a segment", budget.LimitID{Pool: "p1:u", Unit: "u"}, budget.LimitID{Pool: "p", Unit: "u1:u"}},
		{"a digit at the edge", budget.LimitID{Pool: "p1", Unit: "u"}, budget.LimitID{Pool: "p", Unit: "1u"}},
		{"a tag's end", budget.LimitID{Pool: "}", Unit: "u"}, budget.LimitID{Pool: "", Unit: "}u"}},
		{"a tag", budget.LimitID{Pool: "{p03}", Unit: "u"}, budget.LimitID{Pool: "{p03}u", Unit: ""}},
		{"a tag within a key", budget.LimitID{Pool: "bp:{p00}1:p", Unit: "u"}, budget.LimitID{Pool: "bp", Unit: "{p00}1:p1:u"}},
		{"composed and decomposed", budget.LimitID{Pool: "\u00e9", Unit: "u"}, budget.LimitID{Pool: "e\u0301", Unit: "u"}},
		{"one kind of a and another", budget.LimitID{Pool: "a", Unit: "u"}, budget.LimitID{Pool: "\u0430", Unit: "u"}},
		{"something unseen", budget.LimitID{Pool: "a\u200db", Unit: "u"}, budget.LimitID{Pool: "ab", Unit: "u"}},
	}
	everywhere(t, func(t *testing.T, fresh func(testing.TB) *bench) {
		for _, pair := range pairs {
			t.Run(pair.name, func(t *testing.T) {
				t.Parallel()
				b := fresh(t)
				x, y := b.limitOf(b.org, pair.a, 30), b.limitOf(b.org, pair.b, 60)
				b.apart(b.org, x, 10, 30)
				b.apart(b.org, y, 20, 60)
				b.alone(b.org, x, 10, 30)
				b.lawful(x, y)
			})
		}
	})
}

// TestCollidingOrgs: an org's name does not run into a pool's.
func TestCollidingOrgs(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, fresh func(testing.TB) *bench) {
		b := fresh(t)
		// The longer org is of the same partition, so nothing else keeps them apart.
		long := b.org + "0"
		for b.store.Partition(long) != b.store.Partition(b.org) {
			long += "0"
		}
		pool := long[len(b.org):] + "p"
		x := b.limitOf(b.org, budget.LimitID{Pool: pool, Unit: "u"}, 30)
		y := b.limitOf(long, budget.LimitID{Pool: "p", Unit: "u"}, 60)
		b.apart(b.org, x, 10, 30)
		b.apart(long, y, 20, 60)
		b.alone(b.org, x, 10, 30)
	})
}

// TestCollidingSlots: the places of one pool's pattern are not another's.
func TestCollidingSlots(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, fresh func(testing.TB) *bench) {
		b := fresh(t)
		take := func(pool, pattern string) string {
			a := b.reserveArgs(b.key(), 1, b.limitOf(b.org, budget.LimitID{Pool: pool, Unit: "u"}, 100))
			a.Target, a.Slots = "t", []budget.Slot{{Pool: pool, Pattern: pattern, Max: 1}}
			first := told(b.reserve(a))
			a.Execution = ExecutionID(b.org, b.agent.ID, "reserve", b.key())
			return first + ", " + told(b.reserve(a))
		}
		for _, s := range [][2]string{{"a:b", "c"}, {"a", "b:c"}, {"1:a", "c"}, {"a", "1:c"}, {"ab", "c"}, {"a", "bc"}, {"}", "{p01}"}, {"}{", "p01}"}} {
			if got, want := take(s[0], s[1]), "allowed, denied concurrency_exceeded "+s[0]; got != want {
				t.Errorf("%q: %s, want %s", s, got, want)
			}
		}
	})
}

// limitOf makes a limit of any org of the bench's partition.
func (b *bench) limitOf(org string, id budget.LimitID, most int64) budget.Limit {
	b.Helper()
	b.rev++
	id.Period = budget.PeriodNone
	_, err := b.store.ApplyPolicy(b.Context(), PolicyArgs{Org: org, Pool: id.Pool, Rev: b.rev, Limits: []PolicyLimit{{
		Unit: id.Unit, Period: id.Period, Cap: most, OnOverrun: "reject", State: "open",
	}}})
	if err != nil {
		b.Fatal(err)
	}
	return budget.Limit{LimitID: id, Rev: b.rev}
}

// apart reserves in a limit, and finds nothing there but that.
func (b *bench) apart(org string, l budget.Limit, amount, most int64) {
	b.Helper()
	a := b.reserveArgs(b.key(), amount, l)
	a.Agent.Org, a.Execution = org, ExecutionID(org, b.agent.ID, "reserve", b.key())
	if got := told(b.reserve(a)); got != "allowed" {
		b.Fatalf("%q: %s", l.LimitID, got)
	}
	b.alone(org, l, amount, most)
}

func (b *bench) alone(org string, l budget.Limit, held, most int64) {
	b.Helper()
	rows, err := b.store.Balances(b.Context(), org, []budget.LimitID{l.LimitID})
	if err != nil || rows[0].Counters != (budget.Counters{Cap: most, Held: held}) {
		b.Errorf("%q: %+v, %v; want cap %d held %d", l.LimitID, rows, err, most, held)
	}
}
