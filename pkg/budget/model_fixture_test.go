package budget

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	t0     = int64(1_000_000)
	minute = int64(60_000)
	hour   = 60 * minute
)

var (
	rootTokens = LimitID{"root", "tokens", PeriodNone}
	rootUSD    = LimitID{"root", "usd", PeriodNone}
	teamUSD    = LimitID{"team", "usd", PeriodNone}

	alice = Agent{Org: "acme", ID: "alice", Ancestors: []string{"boss"}}
	boss  = Agent{Org: "acme", ID: "boss"}
	bob   = Agent{Org: "acme", ID: "bob"}
)

// bench is a model with the ledger of everything it did.
type bench struct {
	*Model
	t    *testing.T
	fold Fold
	last []Entry
}

// newBench has team (usd 100) under root (usd 150, tokens 1000), a window of
// an hour, and epsilon 5 on usd.
func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{Model: NewModel("acme"), t: t, fold: Fold{}}
	b.policy(teamUSD, LimitPolicy{MaxTotal: 100, Epsilon: 5, LateWindowMS: hour})
	b.policy(rootTokens, LimitPolicy{MaxTotal: 1000, LateWindowMS: hour})
	b.policy(rootUSD, LimitPolicy{MaxTotal: 150, Epsilon: 5, LateWindowMS: hour})
	return b
}

func (b *bench) took(es []Entry) {
	b.t.Helper()
	b.last = es
	for _, e := range es {
		b.fold.Apply(e)
	}
	for _, id := range b.Limits() {
		got, _ := b.Counters(id)
		if diff := cmp.Diff(b.fold[Counter{"acme", id}], got); diff != "" {
			b.t.Fatalf("counters of %v are not the fold of the entries (-fold +counters):\n%s", id, diff)
		}
	}
}

func (b *bench) policy(id LimitID, p LimitPolicy) { b.t.Helper(); b.took(b.SetPolicy(t0, id, p)) }

func path() []Limit { return asPath([]LimitID{teamUSD, rootTokens, rootUSD}) }

func usd(n int64) Amounts { return Amounts{"usd": n, "tokens": 10} }

func (b *bench) reserve(now int64, exec string, n int64, change func(*ReserveCall)) string {
	b.t.Helper()
	c := ReserveCall{
		Agent: alice, Execution: exec, Fingerprint: "f", Amounts: usd(n),
		TTL: time.Minute, Path: path(),
	}
	if change != nil {
		change(&c)
	}
	d, es, err := b.Reserve(now, c)
	b.took(es)
	return said(d, err)
}

func (b *bench) settle(now int64, exec, key string, actual Amounts, change func(*SettleCall)) string {
	b.t.Helper()
	c := SettleCall{Caller: alice, Execution: exec, Key: key, Fingerprint: "f", Actual: actual, Status: "success", Final: true}
	if change != nil {
		change(&c)
	}
	d, es, err := b.Settle(now, c)
	b.took(es)
	return said(d, err)
}

func (b *bench) release(now int64, exec, key string, change func(*ReleaseCall)) string {
	b.t.Helper()
	c := ReleaseCall{Caller: alice, Execution: exec, Key: key, Fingerprint: "f"}
	if change != nil {
		change(&c)
	}
	d, es, err := b.Release(now, c)
	b.took(es)
	return said(d, err)
}

func (b *bench) extend(now int64, exec, key string, ttl time.Duration, add Amounts) string {
	b.t.Helper()
	d, es, err := b.Extend(now, ExtendCall{Caller: alice, Execution: exec, Key: key, Fingerprint: "f", TTL: ttl, Add: add})
	b.took(es)
	return said(d, err)
}

func (b *bench) charge(now int64, exec string, n int64, change func(*ChargeCall)) string {
	b.t.Helper()
	c := ChargeCall{Agent: alice, Execution: exec, Fingerprint: "f", Amounts: usd(n), Path: path()}
	if change != nil {
		change(&c)
	}
	d, es, err := b.Charge(now, c)
	b.took(es)
	return said(d, err)
}

func (b *bench) expire(now int64, exec string) { b.t.Helper(); b.took(b.Expire(now, exec)) }

// figures of team's usd, which every test moves.
func (b *bench) figures() string {
	c, ok := b.Counters(teamUSD)
	if !ok {
		return "gone"
	}
	return fmt.Sprintf("held %d spent %d withheld %d", c.Held, c.Spent, c.Withheld)
}

func (b *bench) expect(what, got, want string) {
	b.t.Helper()
	if got != want {
		b.t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// said is a decision in a few words.
func said(d Decision, err error) string {
	var unit *UnitError
	switch {
	case errors.As(err, &unit), err != nil:
		return err.Error()
	case d.Denial != nil && d.Replayed:
		return "again: " + string(d.Denial.Reason)
	case d.Denial != nil:
		return string(d.Denial.Reason)
	case d.Replayed:
		return "again: " + string(d.Outcome)
	case d.PoolMissing:
		return string(d.Outcome) + ", pool missing"
	default:
		return string(d.Outcome)
	}
}
