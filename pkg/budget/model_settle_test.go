package budget

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The contract's table of what a settle books; the reservation is 10 usd.
func TestModelSettleBooks(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	rows := []struct {
		name       string
		actual     Amounts
		status     string
		dispatched *bool
		final      bool
		usd        int64
		unknown    bool
	}{
		{"actual given", Amounts{"usd": 4, "tokens": 1}, "unknown", nil, true, 4, false},
		{"failure with actual", Amounts{"usd": 4, "tokens": 1}, "failure", &no, true, 4, false},
		{"unit absent", Amounts{"tokens": 1}, "success", nil, true, 10, true},
		{"success without actual", nil, "success", nil, true, 10, true},
		{"unknown without actual", nil, "unknown", nil, true, 10, true},
		{"failed, never dispatched", nil, "failure", &no, true, 0, false},
		{"failed, dispatched", nil, "failure", &yes, true, 10, true},
		{"failed, not said", nil, "failure", nil, true, 10, true},
		{"not final, below", Amounts{"usd": 4, "tokens": 1}, "success", nil, false, 10, true},
		{"not final, above", Amounts{"usd": 12, "tokens": 1}, "success", nil, false, 12, true},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.reserve(t0, "e", 10, nil)
			d, es, err := b.Settle(t0, SettleCall{
				Caller: alice, Execution: "e", Key: "s", Actual: row.actual,
				Status: row.status, Dispatched: row.dispatched, Final: row.final,
			})
			b.took(es)
			if err != nil || d.Outcome != Settled || d.Charged["usd"] != row.usd || d.CostUnknown != row.unknown {
				t.Fatalf("decision %+v, err %v", d, err)
			}
			if back := max(0, 10-row.usd); d.Returned["usd"] != back {
				t.Errorf("returned %d, want %d", d.Returned["usd"], back)
			}
			b.expect("team", b.figures(), fmt.Sprintf("held 0 spent %d withheld 0", row.usd))
		})
	}
}

func TestModelSettle(t *testing.T) {
	t.Parallel()
	by := func(a Agent) func(*SettleCall) { return func(c *SettleCall) { c.Caller = a } }
	rows := []struct {
		name   string
		before func(*bench)
		usd    int64
		change func(*SettleCall)
		want   string
		after  string
	}{
		{"fenced", func(b *bench) { b.Fence() }, 4, nil, "unavailable", "held 10 spent 0 withheld 0"},
		{"no such reservation", nil, 4, func(c *SettleCall) { c.Execution = "x" }, "not found", "held 10 spent 0 withheld 0"},
		{"a stranger's", nil, 4, by(bob), "not found", "held 10 spent 0 withheld 0"},
		{
			"a denied one", func(b *bench) { b.reserve(t0+hour+minute, "d", 1000, nil) }, 4,
			func(c *SettleCall) { c.Execution = "d" }, "not found", "held 10 spent 0 withheld 0",
		},
		{
			"a tombstone", func(b *bench) { b.release(t0+hour+minute, "d", "r", func(c *ReleaseCall) { c.ByKey = true }) }, 4,
			func(c *SettleCall) { c.Execution = "d" }, "already released", "held 10 spent 0 withheld 0",
		},
		{
			"same key, other content", func(b *bench) { b.settle(t0, "e", "s", usd(4), nil) }, 5,
			func(c *SettleCall) { c.Fingerprint = "g" }, "idempotency key reused with other content", "held 0 spent 4 withheld 0",
		},
		{"repeat", func(b *bench) { b.settle(t0, "e", "s", usd(4), nil) }, 4, nil, "again: settled", "held 0 spent 4 withheld 0"},
		{"repeat of a refused one", func(b *bench) { b.settle(t0, "e", "s", usd(40), nil) }, 40, nil, "again: overrun", "held 10 spent 0 withheld 0"},
		{"settled by another key", func(b *bench) { b.settle(t0, "e", "q", usd(4), nil) }, 4, nil, "already settled", "held 0 spent 4 withheld 0"},
		{"released before", func(b *bench) { b.release(t0, "e", "r", nil) }, 4, nil, "already released", "held 0 spent 0 withheld 0"},
		{"a unit not reserved", nil, 4, func(c *SettleCall) { c.Actual["zzz"] = 1 }, "unit unknown: zzz", "held 10 spent 0 withheld 0"},
		{"ancestor", nil, 4, by(boss), "settled", "held 0 spent 4 withheld 0"},
		{"operator", nil, 4, func(c *SettleCall) { c.Caller, c.Operator = Agent{}, true }, "settled", "held 0 spent 4 withheld 0"},
		{"revoked holder", func(b *bench) { b.took(b.Revoke(t0, "alice")) }, 4, nil, "settled", "held 0 spent 4 withheld 0"},
		{"limit gone", func(b *bench) { b.LoseLimit(teamUSD) }, 4, nil, "settled, pool missing", "gone"},
		{"overdue but not expired", nil, 4, nil, "settled", "held 0 spent 4 withheld 0"},
		{"overrun within epsilon", nil, 15, nil, "settled", "held 0 spent 15 withheld 0"},
		{"overrun above epsilon", nil, 16, nil, "overrun", "held 10 spent 0 withheld 0"},
		{"epsilon never passes a cap", func(b *bench) { b.reserve(t0, "o", 90, nil) }, 11, nil, "overrun", "held 100 spent 0 withheld 0"},
		{"epsilon up to the cap", func(b *bench) { b.reserve(t0, "o", 85, nil) }, 15, nil, "settled", "held 85 spent 15 withheld 0"},
		{"one limit charges, the other refuses", func(b *bench) {
			b.policy(teamUSD, LimitPolicy{MaxTotal: 100, ChargeOver: true})
		}, 500, nil, "overrun", "held 10 spent 0 withheld 0"},
		{"all overrun limits charge", func(b *bench) {
			b.policy(teamUSD, LimitPolicy{MaxTotal: 100, ChargeOver: true})
			b.policy(rootUSD, LimitPolicy{MaxTotal: 150, ChargeOver: true})
		}, 500, nil, "settled", "held 0 spent 500 withheld 0"},
		{"late", func(b *bench) { b.expire(t0+minute, "e") }, 500, nil, "late_settled", "held 0 spent 500 withheld 0"},
		{"after the lapse", func(b *bench) {
			b.expire(t0+minute, "e")
			b.expire(t0+minute+hour, "e")
		}, 4, nil, "late_settled", "held 0 spent 4 withheld 0"},
		{"the rest after a refused overrun", func(b *bench) {
			b.settle(t0, "e", "q", usd(40), nil)
			b.expire(t0+minute, "e")
			b.expect("at expiry", b.figures(), "held 0 spent 10 withheld 0")
		}, 40, nil, "late_settled", "held 0 spent 40 withheld 0"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.reserve(t0, "e", 10, nil)
			if row.before != nil {
				row.before(b)
			}
			b.expect("answer", b.settle(t0+2*hour, "e", "s", usd(row.usd), row.change), row.want)
			b.expect("team", b.figures(), row.after)
		})
	}
}

func TestModelNamedSettler(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.reserve(t0, "e", 10, func(c *ReserveCall) { c.Settler = "bob" })
	b.expect("settler", b.settle(t0, "e", "s", usd(3), func(c *SettleCall) { c.Caller = bob }), "settled")
}

// Sixteen refusals are remembered; a settle that resolves is always accepted.
func TestModelAttempts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.reserve(t0, "e", 10, nil)
	for i := range attemptsMax {
		b.expect("refused", b.settle(t0, "e", fmt.Sprint("s", i), usd(50), nil), "overrun")
	}
	b.expect("one more", b.settle(t0, "e", "more", usd(50), nil), "too many resolution attempts")
	b.expect("an add", b.extend(t0, "e", "x", 0, Amounts{"usd": 1}), "too many resolution attempts")
	b.expect("a heartbeat", b.extend(t0, "e", "x", time.Minute, nil), "allowed")
	b.expect("a repeat", b.settle(t0, "e", "s3", usd(50), nil), "again: overrun")
	b.expect("one that fits", b.settle(t0, "e", "fits", usd(9), nil), "settled")
}

func TestModelRefusedOverrunAnswer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.reserve(t0, "e", 10, nil)
	d, es, err := b.Settle(t0, SettleCall{Caller: alice, Execution: "e", Key: "s", Actual: usd(50), Final: true})
	if err != nil || len(es) != 1 || es[0].Kind != KindOverrunRefused {
		t.Fatalf("entries %+v, err %v", es, err)
	}
	want := Decision{
		Outcome: Refused, Reservation: "e", Denial: &Denial{Reason: ReasonOverrun},
		Authorised: usd(10), Actual: usd(50), Epsilon: Amounts{"usd": 5},
	}
	if diff := cmp.Diff(want, d); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
