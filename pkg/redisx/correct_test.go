package redisx

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"tallystick/pkg/budget"
)

// correctArgs move what was spent on limits by n.
func (b *bench) correctArgs(key string, n int64, limits ...budget.Limit) CorrectArgs {
	execution := ExecutionID(b.org, "operator", "correct", key)
	b.executions = append(b.executions, execution)
	amounts := budget.Amounts{"usd_microcents": n}
	return CorrectArgs{
		CorrectCall: budget.CorrectCall{
			Agent: b.agent, Execution: execution, Fingerprint: fmt.Sprintf("%032x", 1<<20+n), Kind: budget.KindCorrected,
			Amounts: amounts, Limits: limitIDs(limits),
		},
		Told:  CorrectTold{Corrects: Corrects{7, "ab"}, Amounts: amounts, Reason: "a\n\"b\"", By: "operator"},
		Extra: Extra{Key: key, OnBehalfOf: "customer"},
	}
}

func (b *bench) correct(a CorrectArgs) string {
	c, err := b.store.Correct(b.Context(), a)
	var out *budget.RangeError
	if errors.As(err, &out) {
		return out.Error()
	} else if err != nil {
		return told(budget.Decision{}, err)
	}
	s := string(c.Kind)
	for _, m := range c.Moves {
		s += fmt.Sprintf(" %s %+d", m.Pool, m.Spent)
	}
	for flag, on := range map[string]bool{" replayed": c.Replayed} {
		if on {
			s += flag
		}
	}
	if c.PoolMissing {
		s += " pool_missing"
	}
	return s
}

// spentPool is a pool that has spent 10.
func (b *bench) spentPool(name string) budget.Limit {
	l := b.pool(name, PolicyLimit{Cap: 100})
	if got := told(b.charge(b.chargeArgs("c"+name, 10, true, l))); got != "charged" {
		b.Fatal(got)
	}
	return l
}

// One row per outcome of correct.lua.
func TestCorrect(t *testing.T) {
	t.Parallel()
	state := func(spent, more string) string {
		return "opened p; p cap 100 held 0 spent " + spent + " withheld 0; record charged 24h" + more
	}
	one := "; record charged 24h; entries policy_changed charged corrected"
	runRows(t, []row{
		{"fenced", func(b *bench) string {
			l := b.spentPool("p")
			defer b.fence()()
			return b.correct(b.correctArgs("k", 1, l))
		}, "unavailable", state("10", "; entries policy_changed charged")},
		{"emptied", func(b *bench) string {
			l := b.spentPool("p")
			b.client.Del(b.Context(), b.store.keysOf(b.org).epoch)
			defer func() { _ = b.store.SetEpoch(b.Context(), b.store.Partition(b.org), "e1") }()
			return b.correct(b.correctArgs("k", 1, l))
		}, "unavailable", state("10", "; entries policy_changed charged")},
		{"replayed", func(b *bench) string {
			a := b.correctArgs("k", -4, b.spentPool("p"))
			return b.correct(a) + ", " + b.correct(a)
		}, "corrected p -4, corrected p -4 replayed", state("6", one)},
		{"key reused", func(b *bench) string {
			l := b.spentPool("p")
			return b.correct(b.correctArgs("k", -4, l)) + ", " + b.correct(b.correctArgs("k", -5, l))
		}, "corrected p -4, idempotency key reused with other content", state("6", "; record charged 24h"+one)},
		{"not an amount", func(b *bench) string {
			return b.correct(b.correctArgs("k", budget.MaxAmount+1, b.spentPool("p")))
		}, `redisx: correct.lua answered "invalid"`, state("10", "; entries policy_changed charged")},
		{"below zero on the second", func(b *bench) string {
			l, r := b.spentPool("p"), b.pool("r", PolicyLimit{Cap: 100})
			return b.correct(b.correctArgs("k", -10, l, r))
		}, "out of range: pool r has spent 0 usd_microcents", "opened p; opened r; p cap 100 held 0 spent 10 withheld 0; r cap 100 held 0 spent 0 withheld 0; record charged 24h; entries policy_changed charged policy_changed"},
		{"above 2^53-1", func(b *bench) string {
			return b.correct(b.correctArgs("k", budget.MaxAmount-9, b.spentPool("p")))
		}, "out of range: pool p has spent 10 usd_microcents", state("10", "; entries policy_changed charged")},
		{"to zero exactly, then past the cap", func(b *bench) string {
			l := b.spentPool("p")
			return b.correct(b.correctArgs("k", -10, l)) + ", " + b.correct(b.correctArgs("k2", 101, l))
		}, "corrected p -10, corrected p +101", state("101", "; record charged 24h"+one+" corrected")},
		{"pool missing", func(b *bench) string {
			l, r := b.spentPool("p"), b.pool("r", PolicyLimit{Cap: 100})
			b.drop(l)
			a := b.correctArgs("k", 3, l, r)
			return b.correct(a) + ", " + b.correct(a)
		}, "corrected p +3 r +3 pool_missing, corrected p +3 r +3 replayed pool_missing", "opened p; opened r; r cap 100 held 0 spent 3 withheld 0; record charged 24h; record charged 24h; entries policy_changed charged policy_changed corrected"},
		{"a dispute moves nothing", func(b *bench) string {
			b.spentPool("p")
			a := b.correctArgs("k", 3)
			a.Kind = budget.KindDisputed
			return b.correct(a) + ", " + b.correct(a)
		}, "disputed, disputed replayed", state("10", "; record charged 24h; entries policy_changed charged disputed")},
		{"forgotten after a day", func(b *bench) string {
			a := b.correctArgs("k", -4, b.spentPool("p"))
			out := b.correct(a)
			b.client.Del(b.Context(), b.store.keysOf(b.org).record(a.Execution))
			return out + ", " + b.correct(a)
		}, "corrected p -4, corrected p -4", state("2", one+" corrected")},
	})
}

// The entry tells what was asked, and of whom; no reason breaks a line. The
// record is nobody's to settle.
func TestCorrectEntry(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, fresh func(testing.TB) *bench) {
		b := fresh(t)
		l := b.spentPool("p")
		a := b.correctArgs("k", -4, l)
		a.Told.Evidence, a.Told.Why = Evidence{"cd", "application/pdf", 12}, "w"
		b.correct(a)
		all := b.entries()
		e := all[len(all)-1]
		const want = `{"corrects":{"seq":7,"hash":"ab"},"amounts":{"usd_microcents":-4},"reason":"a\n\"b\"","by":"operator","why":"w",` +
			`"evidence":{"id":"cd","type":"application/pdf","size":12}}`
		if string(e.Detail) != want || e.OnBehalfOf != "customer" || e.Key != "k" || e.Agent != b.agent.ID || e.Execution != a.Execution {
			t.Errorf("%s\n%+v", e.Detail, e)
		}
		b.lawful(l)
		got := told(b.settle(SettleArgs{
			Caller: b.agent, Execution: a.Execution, Key: "s", Fingerprint: "f", Actual: budget.Amounts{"usd_microcents": 1},
			Status: "unknown", Final: true, Guess: []budget.Limit{l},
		}))
		if got != budget.ErrNotFound.Error() {
			t.Errorf("settle of a correction: %s", got)
		}
	})
}

// A record comes back with a rebuild, and answers as before.
func TestCorrectRestored(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	a := b.correctArgs("k", -4, b.spentPool("p"))
	b.nowMS = time.Now().UnixMilli() // what is kept goes by a real clock
	b.advance(0)
	first := b.correct(a)
	all := b.entries()
	e := all[len(all)-1]
	b.client.Del(b.Context(), b.store.keysOf(b.org).record(a.Execution))
	pipe := b.client.Pipeline() // a fence would be in the way of other tests
	kept := restoreRecord(b.Context(), pipe, b.store.keysOf(b.org), e.Execution, e.Record, time.Now())
	if _, err := pipe.Exec(b.Context()); err != nil || kept == nil {
		t.Fatal(kept, err)
	}
	if got := b.correct(a); got != first+" replayed" || !strings.HasPrefix(first, "corrected") {
		t.Errorf("%s, then %s", first, got)
	}
}
