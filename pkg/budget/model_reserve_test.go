package budget

import (
	"testing"
	"time"
)

// One row per outcome, in order of precedence.
func TestModelReserve(t *testing.T) {
	t.Parallel()
	slot := []Slot{{Pool: "team", Pattern: "*", Max: 1}}
	rows := []struct {
		name   string
		before func(*bench)
		change func(*ReserveCall)
		want   string
		after  string
	}{
		{"fenced", func(b *bench) { b.Fence() }, nil, "unavailable", ""},
		{"released before", func(b *bench) {
			b.release(t0, "e", "r", func(c *ReleaseCall) { c.ByKey = true })
		}, nil, "released", ""},
		{
			"other content", func(b *bench) { b.reserve(t0, "e", 5, nil) },
			func(c *ReserveCall) { c.Fingerprint = "g" }, "idempotency key reused with other content", "held 5 spent 0 withheld 0",
		},
		{"repeat", func(b *bench) { b.reserve(t0, "e", 10, nil) }, nil, "again: allowed", "held 10 spent 0 withheld 0"},
		{"repeat of a denial after a top-up", func(b *bench) {
			b.reserve(t0, "e", 101, nil)
			b.policy(teamUSD, LimitPolicy{MaxTotal: 1000})
		}, nil, "again: budget_exceeded", ""},
		{"stale policy", nil, func(c *ReserveCall) { c.Path[0].Rev = 7 }, "stale policy", ""},
		{"unit missing", nil, func(c *ReserveCall) { delete(c.Amounts, "tokens") }, "unit missing: tokens", ""},
		{"unit unknown", nil, func(c *ReserveCall) { c.Amounts["zzz"] = 1 }, "unit unknown: zzz", ""},
		{
			"deadline passed", func(b *bench) { b.Revoke(t0, "alice") },
			func(c *ReserveCall) { c.NotAfter = time.UnixMilli(t0 - 1) }, "deadline_passed", "",
		},
		{"revoked ancestor", func(b *bench) {
			b.took(b.Revoke(t0, "boss"))
			b.policy(rootUSD, LimitPolicy{MaxTotal: 150, Frozen: true})
		}, nil, "revoked", ""},
		{"frozen", func(b *bench) {
			b.policy(rootUSD, LimitPolicy{MaxTotal: 150, Frozen: true})
			b.LoseLimit(teamUSD)
		}, nil, "frozen", "gone"},
		{"pool missing", func(b *bench) {
			b.LoseLimit(rootUSD)
			b.policy(teamUSD, LimitPolicy{MaxTotal: 100, Closed: true})
		}, nil, "pool_missing", ""},
		{"period closed", func(b *bench) {
			b.policy(rootUSD, LimitPolicy{MaxTotal: 150, Closed: true})
			b.charge(t0, "c", 101, func(c *ChargeCall) { c.Incurred = true })
		}, nil, "period_closed", "held 0 spent 101 withheld 0"},
		{"debt", func(b *bench) {
			b.charge(t0, "c", 101, func(c *ChargeCall) { c.Incurred = true })
			b.reserve(t0, "other", 0, nil)
		}, func(c *ReserveCall) { c.Slots = []Slot{{Pool: "team", Pattern: "*", Max: 0}} }, "debt", "held 0 spent 101 withheld 0"},
		{"concurrency", func(b *bench) {
			b.reserve(t0, "other", 100, func(c *ReserveCall) { c.Slots = slot })
		}, func(c *ReserveCall) { c.Slots = slot }, "concurrency_exceeded", "held 100 spent 0 withheld 0"},
		{"budget of the pool", nil, func(c *ReserveCall) { c.Amounts["usd"] = 101 }, "budget_exceeded", ""},
		{"budget of the root", func(b *bench) {
			b.charge(t0, "c", 141, func(c *ChargeCall) { c.Path, c.Incurred = c.Path[1:], true })
		}, nil, "budget_exceeded", ""},
		{"ceiling", nil, func(c *ReserveCall) { c.Path[0].Ceiling = 9 }, "budget_exceeded", ""},
		{"a ceiling never widens", nil, func(c *ReserveCall) { c.Path[0].Ceiling, c.Amounts["usd"] = 1000, 101 }, "budget_exceeded", ""},
		{"dry run", nil, func(c *ReserveCall) { c.DryRun = true }, "allowed", ""},
		{"allowed", nil, nil, "allowed", "held 10 spent 0 withheld 0"},
		{"the last unit", nil, func(c *ReserveCall) { c.Amounts["usd"] = 100 }, "allowed", "held 100 spent 0 withheld 0"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			if row.before != nil {
				row.before(b)
			}
			b.expect("answer", b.reserve(t0+1, "e", 10, row.change), row.want)
			if row.after == "" {
				row.after = "held 0 spent 0 withheld 0"
			}
			b.expect("team", b.figures(), row.after)
		})
	}
}

func TestModelDenialNamesTheFirstHit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	d, _, err := b.Reserve(t0, ReserveCall{Agent: alice, Execution: "e", Amounts: Amounts{"usd": 500, "tokens": 5000}, Path: path()})
	if err != nil || d.Denial == nil || d.Denial.Limit != teamUSD || d.Denial.Requested != 500 || d.Denial.Counters.Cap != 100 {
		t.Fatalf("denial %+v, err %v", d.Denial, err)
	}
	d, _, _ = b.Reserve(t0, ReserveCall{Agent: alice, Execution: "f", Amounts: Amounts{"usd": 1, "tokens": 5000}, Path: path()})
	if d.Denial == nil || d.Denial.Limit != rootTokens {
		t.Fatalf("denial %+v", d.Denial)
	}
}

// A denial outlives its cause by an hour, then the key is new.
func TestModelRetention(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.expect("denied", b.reserve(t0, "e", 101, nil), "budget_exceeded")
	b.policy(teamUSD, LimitPolicy{MaxTotal: 1000})
	b.policy(rootUSD, LimitPolicy{MaxTotal: 1000})
	b.expect("inside the hour", b.reserve(t0+hour-1, "e", 101, nil), "again: budget_exceeded")
	b.expect("after it", b.reserve(t0+hour, "e", 101, nil), "allowed")

	b.expect("settled", b.settle(t0+hour, "e", "s", usd(1), nil), "settled")
	b.expect("inside the day", b.reserve(t0+25*hour-1, "e", 101, nil), "again: allowed")
	b.expect("after it", b.settle(t0+25*hour, "e", "s", usd(1), nil), "not found")

	b.LoseLimit(teamUSD)
	b.expect("pool missing", b.reserve(t0, "m", 1, nil), "pool_missing")
	b.expect("not remembered", string(b.State(t0, "m")), "")
}
