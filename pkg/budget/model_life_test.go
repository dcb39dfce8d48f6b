package budget

import (
	"testing"
	"time"
)

func TestModelRelease(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name   string
		before func(*bench)
		change func(*ReleaseCall)
		want   string
		after  string
	}{
		{"fenced", func(b *bench) { b.Fence() }, nil, "unavailable", "held 10 spent 0 withheld 0"},
		{"no such reservation", nil, func(c *ReleaseCall) { c.Execution = "x" }, "not found", "held 10 spent 0 withheld 0"},
		{"a key never used", nil, func(c *ReleaseCall) { c.Execution, c.ByKey = "x", true }, "released", "held 10 spent 0 withheld 0"},
		{"a tombstone again", func(b *bench) {
			b.release(t0+2*hour, "x", "q", func(c *ReleaseCall) { c.ByKey = true })
		}, func(c *ReleaseCall) { c.Execution, c.ByKey = "x", true }, "released", "held 10 spent 0 withheld 0"},
		{"a stranger's", nil, func(c *ReleaseCall) { c.Caller = bob }, "not found", "held 10 spent 0 withheld 0"},
		{
			"other content", func(b *bench) { b.release(t0, "e", "r", nil) },
			func(c *ReleaseCall) { c.Fingerprint = "g" }, "idempotency key reused with other content", "held 0 spent 0 withheld 0",
		},
		{"repeat", func(b *bench) { b.release(t0, "e", "r", nil) }, nil, "again: released", "held 0 spent 0 withheld 0"},
		{"settled before", func(b *bench) { b.settle(t0, "e", "s", usd(4), nil) }, nil, "already settled", "held 0 spent 4 withheld 0"},
		{"released by another key", func(b *bench) { b.release(t0, "e", "q", nil) }, nil, "already released", "held 0 spent 0 withheld 0"},
		{
			"a denied one", func(b *bench) { b.reserve(t0+hour+minute, "d", 1000, nil) },
			func(c *ReleaseCall) { c.Execution = "d" }, "released", "held 10 spent 0 withheld 0",
		},
		{"after a refused overrun", func(b *bench) { b.settle(t0, "e", "s", usd(40), nil) }, nil, "overrun", "held 10 spent 0 withheld 0"},
		{"after a refused overrun left to its deadline", func(b *bench) {
			b.settle(t0, "e", "s", usd(40), nil)
			b.expire(t0+minute, "e")
		}, nil, "overrun", "held 0 spent 10 withheld 0"},
		{"expired", func(b *bench) { b.expire(t0+minute, "e") }, nil, "released", "held 0 spent 0 withheld 0"},
		{"lapsed", func(b *bench) {
			b.expire(t0+minute, "e")
			b.expire(t0+minute+hour, "e")
		}, nil, "released", "held 0 spent 0 withheld 0"},
		{"limit gone", func(b *bench) { b.LoseLimit(teamUSD) }, nil, "released, pool missing", "gone"},
		{"held", nil, nil, "released", "held 0 spent 0 withheld 0"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.reserve(t0, "e", 10, nil)
			if row.before != nil {
				row.before(b)
			}
			b.expect("answer", b.release(t0+2*hour, "e", "r", row.change), row.want)
			b.expect("team", b.figures(), row.after)
		})
	}
}

func TestModelExtend(t *testing.T) {
	t.Parallel()
	one := Amounts{"usd": 1}
	rows := []struct {
		name   string
		before func(*bench)
		exec   string
		ttl    time.Duration
		add    Amounts
		want   string
		after  string
	}{
		{"fenced", func(b *bench) { b.Fence() }, "e", time.Minute, nil, "unavailable", "held 10 spent 0 withheld 0"},
		{"no such reservation", nil, "x", time.Minute, nil, "not found", "held 10 spent 0 withheld 0"},
		{"settled", func(b *bench) { b.settle(t0, "e", "s", usd(4), nil) }, "e", time.Minute, nil, "already settled", "held 0 spent 4 withheld 0"},
		{"released", func(b *bench) { b.release(t0, "e", "r", nil) }, "e", time.Minute, nil, "already released", "held 0 spent 0 withheld 0"},
		{"expired", func(b *bench) { b.expire(t0+minute, "e") }, "e", time.Minute, nil, "already expired", "held 0 spent 0 withheld 10"},
		{"unit not reserved", nil, "e", 0, Amounts{"zzz": 1}, "unit unknown: zzz", "held 10 spent 0 withheld 0"},
		{"add by a revoked agent", func(b *bench) { b.took(b.Revoke(t0, "alice")) }, "e", 0, one, "revoked", "held 10 spent 0 withheld 0"},
		{"heartbeat of a revoked agent", func(b *bench) { b.took(b.Revoke(t0, "alice")) }, "e", time.Minute, nil, "allowed", "held 10 spent 0 withheld 0"},
		{"add to a frozen pool", func(b *bench) { b.policy(teamUSD, LimitPolicy{MaxTotal: 100, Frozen: true}) }, "e", 0, one, "frozen", "held 10 spent 0 withheld 0"},
		{"add above the cap", nil, "e", time.Hour, Amounts{"usd": 91}, "budget_exceeded", "held 10 spent 0 withheld 0"},
		{"add to a gone limit", func(b *bench) { b.LoseLimit(teamUSD) }, "e", 0, one, "pool_missing", "gone"},
		{"repeat of an add", func(b *bench) { b.extend(t0, "e", "x", 0, one) }, "e", 0, one, "again: allowed", "held 11 spent 0 withheld 0"},
		{"add", nil, "e", 0, one, "allowed", "held 11 spent 0 withheld 0"},
		{"both", nil, "e", time.Minute, one, "allowed", "held 11 spent 0 withheld 0"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.reserve(t0, "e", 10, nil)
			if row.before != nil {
				row.before(b)
			}
			b.expect("answer", b.extend(t0+1, row.exec, "x", row.ttl, row.add), row.want)
			b.expect("team", b.figures(), row.after)
		})
	}
}

// The deadline never moves back, and not beyond seven days after the reserve.
func TestModelExtendDeadline(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.reserve(t0, "e", 10, func(c *ReserveCall) { c.TTL = 10 * time.Minute })
	at := func(now int64, ttl time.Duration) int64 {
		d, _, err := b.Extend(now, ExtendCall{Caller: alice, Execution: "e", Key: "x", TTL: ttl})
		if err != nil {
			t.Fatal(err)
		}
		return d.ExpiresAt.UnixMilli() - t0
	}
	rows := []struct {
		now  int64
		ttl  time.Duration
		want int64
	}{
		{0, time.Minute, 10 * minute},
		{9 * minute, time.Minute, 10 * minute},
		{9 * minute, 2 * time.Minute, 11 * minute},
		{10 * minute, 300 * time.Hour, 7 * 24 * hour},
	}
	for _, row := range rows {
		if got := at(t0+row.now, row.ttl); got != row.want {
			t.Errorf("at +%d: deadline +%d, want +%d", row.now, got, row.want)
		}
	}
	if got := b.extend(t0+7*24*hour, "e", "x", time.Minute, nil); got != "already expired" {
		t.Errorf("after the deadline: %s", got)
	}
}

func TestModelCharge(t *testing.T) {
	t.Parallel()
	incurred := func(c *ChargeCall) { c.Incurred = true }
	rows := []struct {
		name   string
		before func(*bench)
		usd    int64
		change func(*ChargeCall)
		want   string
		after  string
	}{
		{"fenced", func(b *bench) { b.Fence() }, 10, nil, "unavailable", "held 0 spent 0 withheld 0"},
		{
			"other content", func(b *bench) { b.charge(t0, "e", 5, nil) }, 10,
			func(c *ChargeCall) { c.Fingerprint = "g" }, "idempotency key reused with other content", "held 0 spent 5 withheld 0",
		},
		{"repeat", func(b *bench) { b.charge(t0, "e", 10, nil) }, 10, nil, "again: charged", "held 0 spent 10 withheld 0"},
		{"repeat of a denial", func(b *bench) { b.charge(t0, "e", 101, nil) }, 101, nil, "again: budget_exceeded", "held 0 spent 0 withheld 0"},
		{"unit missing", nil, 10, func(c *ChargeCall) { delete(c.Amounts, "tokens") }, "unit missing: tokens", "held 0 spent 0 withheld 0"},
		{"above the cap", nil, 101, nil, "budget_exceeded", "held 0 spent 0 withheld 0"},
		{"incurred above the cap", nil, 101, incurred, "charged", "held 0 spent 101 withheld 0"},
		{"incurred by a revoked agent", func(b *bench) { b.took(b.Revoke(t0, "alice")) }, 10, incurred, "charged", "held 0 spent 10 withheld 0"},
		{"incurred, limit gone", func(b *bench) { b.LoseLimit(teamUSD) }, 10, incurred, "charged, pool missing", "gone"},
		{"charged", nil, 10, nil, "charged", "held 0 spent 10 withheld 0"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			if row.before != nil {
				row.before(b)
			}
			b.expect("answer", b.charge(t0, "e", row.usd, row.change), row.want)
			b.expect("team", b.figures(), row.after)
		})
	}
}

func TestModelExpire(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	slot := func(c *ReserveCall) { c.Slots = []Slot{{Pool: "team", Pattern: "*", Max: 1}} }
	b.reserve(t0, "e", 10, slot)
	b.expire(t0+minute-1, "e")
	b.expect("before the deadline", b.figures(), "held 10 spent 0 withheld 0")
	b.expire(t0+minute, "e")
	b.expect("expired", b.figures(), "held 0 spent 0 withheld 10")
	b.expect("slot freed", b.reserve(t0+minute, "f", 1, slot), "allowed")
	b.policy(teamUSD, LimitPolicy{MaxTotal: 100, LateWindowMS: 48 * hour})
	b.expire(t0+minute+hour-1, "e")
	b.expect("inside the window", string(b.State(t0+minute, "e")), "expired")
	b.expire(t0+minute+hour, "e")
	b.expect("the window was fixed at expiry", string(b.State(t0+minute, "e")), "lapsed")

	b = newBench(t)
	for _, id := range b.Limits() {
		b.policy(id, LimitPolicy{MaxTotal: 100})
	}
	b.reserve(t0, "e", 10, nil)
	b.expire(t0+minute, "e")
	b.expect("no window", string(b.State(t0+minute, "e")), "lapsed")
	b.expect("nothing withheld", b.figures(), "held 0 spent 0 withheld 0")
}
