package redisx

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"tallystick/pkg/budget"
)

func TestRelease(t *testing.T) {
	t.Parallel()
	hold := func(b *bench) ReserveArgs {
		return b.hold(10, b.pool("p", PolicyLimit{Cap: 100, LateWindowMS: 3600000}))
	}
	args := func(b *bench, h ReserveArgs) ReleaseArgs {
		return ReleaseArgs{Caller: b.agent, Execution: h.Execution, Key: b.key(), Fingerprint: "aa", Guess: h.Path}
	}
	release := func(b *bench, a ReleaseArgs) string { return told(b.release(a)) }
	free := "opened p; p cap 100 held 0 spent 0 withheld 0; record released 24h; entries policy_changed reserved "
	runRows(t, []row{
		{"fenced", func(b *bench) string {
			a := args(b, hold(b))
			defer b.fence()()
			return release(b, a)
		}, "unavailable", heldState},
		{"absent", func(b *bench) string {
			a := args(b, hold(b))
			a.Execution = uuid.NewString()
			return release(b, a)
		}, "not found", heldState},
		{"somebody else's", func(b *bench) string {
			a := args(b, hold(b))
			a.Caller.ID, a.ByKey = uuid.NewString(), true
			return release(b, a)
		}, "not found", heldState},
		{"replayed", func(b *bench) string {
			a := args(b, hold(b))
			return release(b, a) + ", " + release(b, a)
		}, "released returned usd_microcents=10, released returned usd_microcents=10 replayed", free + "released"},
		{"key reused", func(b *bench) string {
			a := args(b, hold(b))
			release(b, a)
			a.Fingerprint = "bb"
			return release(b, a)
		}, "idempotency key reused with other content", free + "released"},
		{"already released", func(b *bench) string {
			h := hold(b)
			release(b, args(b, h))
			return release(b, args(b, h))
		}, "already released", free + "released"},
		{"already settled", func(b *bench) string {
			h := hold(b)
			told(b.settle(b.settleArgs(h, 1)))
			return release(b, args(b, h))
		}, "already settled", "opened p; p cap 100 held 0 spent 1 withheld 0; record settled 24h; entries policy_changed reserved settled"},
		{"tombstone twice", func(b *bench) string {
			b.pool("p", PolicyLimit{Cap: 100})
			a := args(b, b.reserveArgs("k", 1))
			a.ByKey = true
			return release(b, a) + ", " + release(b, a)
		}, "released, released", "opened p; p cap 100 held 0 spent 0 withheld 0; record tombstone 1h; entries policy_changed"},
		{"denied reserve", func(b *bench) string {
			a := b.reserveArgs("k", 101, b.pool("p", PolicyLimit{Cap: 100}))
			told(b.reserve(a))
			return release(b, args(b, a))
		}, "released", "opened p; p cap 100 held 0 spent 0 withheld 0; record denied 1h; entries policy_changed"},
		{"expired", func(b *bench) string {
			h := hold(b)
			b.advance(time.Minute)
			b.expire(h.Execution)
			return release(b, args(b, h))
		}, "released returned usd_microcents=10", free + "expired released"},
		{"lapsed", func(b *bench) string {
			h := hold(b)
			b.advance(time.Minute)
			b.expire(h.Execution)
			b.advance(time.Hour)
			return b.expire(h.Execution) + ", " + release(b, args(b, h))
		}, "lapsed, released", "opened p; p cap 100 held 0 spent 0 withheld 0; record lapsed 30d; entries policy_changed reserved expired lapsed"},
		{"after a refused overrun", func(b *bench) string {
			h := hold(b)
			told(b.settle(b.settleArgs(h, 50)))
			return release(b, args(b, h))
		}, "denied overrun", heldState + " overrun_refused"},
		{"pool missing", func(b *bench) string {
			h := hold(b)
			b.drop(h.Path[0])
			return release(b, args(b, h))
		}, "released returned usd_microcents=10 pool_missing", "opened p; record released 24h; entries policy_changed reserved released"},
		{"keys corrected, slot freed", func(b *bench) string {
			a := b.slotted(b.reserveArgs("k", 10, b.pool("p", PolicyLimit{Cap: 100})), 1)
			told(b.reserve(a))
			return release(b, args(b, a))
		}, "released returned usd_microcents=10", free + "released"},
	})
}

func TestExtend(t *testing.T) {
	t.Parallel()
	hold := func(b *bench) ReserveArgs {
		return b.hold(10, b.pool("p", PolicyLimit{Cap: 100, LateWindowMS: 3600000}))
	}
	args := func(b *bench, h ReserveArgs, ttl time.Duration, add int64) ExtendArgs {
		a := ExtendArgs{Caller: b.agent, Execution: h.Execution, Key: b.key(), Fingerprint: "aa", TTL: ttl, Guess: h.Path}
		if add > 0 {
			a.Add = budget.Amounts{"usd_microcents": add}
		}
		return a
	}
	extend := func(b *bench, a ExtendArgs) string { return told(b.extend(a)) }
	grown := "live 1; opened p; p cap 100 held 15 spent 0 withheld 0; record held; entries policy_changed reserved extended"
	runRows(t, []row{
		{"fenced", func(b *bench) string {
			a := args(b, hold(b), time.Hour, 0)
			defer b.fence()()
			return extend(b, a)
		}, "unavailable", heldState},
		{"absent", func(b *bench) string {
			a := args(b, hold(b), time.Hour, 0)
			a.Execution = uuid.NewString()
			return extend(b, a)
		}, "not found", heldState},
		{"somebody else's", func(b *bench) string {
			a := args(b, hold(b), time.Hour, 0)
			a.Caller.ID = uuid.NewString()
			return extend(b, a)
		}, "not found", heldState},
		{"already settled", func(b *bench) string {
			h := hold(b)
			told(b.settle(b.settleArgs(h, 1)))
			return extend(b, args(b, h, time.Hour, 0))
		}, "already settled", "opened p; p cap 100 held 0 spent 1 withheld 0; record settled 24h; entries policy_changed reserved settled"},
		{"past the deadline, not reaped", func(b *bench) string {
			h := hold(b)
			b.advance(time.Minute + time.Millisecond)
			return extend(b, args(b, h, time.Hour, 0))
		}, "already expired", "expiring -1; live 1; opened p; p cap 100 held 10 spent 0 withheld 0; record held; entries policy_changed reserved"},
		{"expired", func(b *bench) string {
			h := hold(b)
			b.advance(time.Minute)
			b.expire(h.Execution)
			return extend(b, args(b, h, time.Hour, 0))
		}, "already expired", "expiring +3600000; opened p; p cap 100 held 0 spent 0 withheld 10; record expired 30d; entries policy_changed reserved expired"},
		{"unit unknown", func(b *bench) string {
			a := args(b, hold(b), 0, 0)
			a.Add = budget.Amounts{"tokens": 1}
			return extend(b, a)
		}, "unit unknown: tokens", heldState},
		{"denied and replayed", func(b *bench) string {
			a := args(b, hold(b), 0, 91)
			first := extend(b, a)
			b.pool("p", PolicyLimit{Cap: 1000})
			return first + ", " + extend(b, a)
		}, "denied budget_exceeded p, denied budget_exceeded p replayed", "expiring +60000; live 1; opened p; p cap 1000 held 10 spent 0 withheld 0; record held; entries policy_changed reserved policy_changed"},
		{"frozen", func(b *bench) string {
			h := hold(b)
			b.pool("p", PolicyLimit{Cap: 100, State: "frozen"})
			return extend(b, args(b, h, 0, 5))
		}, "denied frozen p", "expiring +60000; live 1; opened p; p cap 100 held 10 spent 0 withheld 0; record held; entries policy_changed reserved policy_changed"},
		{"pool missing", func(b *bench) string {
			h := hold(b)
			b.drop(h.Path[0])
			return extend(b, args(b, h, 0, 5))
		}, "denied pool_missing p", "expiring +60000; live 1; opened p; record held; entries policy_changed reserved"},
		{"revoked may keep, not add", func(b *bench) string {
			h := hold(b)
			b.revoke(b.agent)
			return extend(b, args(b, h, 0, 5)) + ", " + extend(b, args(b, h, 2*time.Minute, 0))
		}, "denied revoked, allowed", "expiring +120000; live 1; opened p; p cap 100 held 10 spent 0 withheld 0; record held; revoked; entries policy_changed reserved agent_revoked extended"},
		{"a settler below a revoked agent may keep, not add", func(b *bench) string {
			a := b.reserveArgs(b.key(), 10, b.pool("p", PolicyLimit{Cap: 100}))
			boss := budget.Agent{Org: b.org, ID: "boss" + b.org}
			settler := budget.Agent{Org: b.org, ID: "settler" + b.org, Ancestors: []string{boss.ID}}
			a.Settler = settler.ID
			told(b.reserve(a))
			b.revoke(boss)
			by := func(ttl time.Duration, add int64) ExtendArgs {
				e := args(b, a, ttl, add)
				e.Caller = settler
				return e
			}
			return extend(b, by(0, 5)) + ", " + extend(b, by(2*time.Minute, 0))
		}, "denied revoked, allowed", "expiring +120000; live 1; opened p; p cap 100 held 10 spent 0 withheld 0; record held; entries policy_changed reserved agent_revoked extended"},
		{"never earlier", func(b *bench) string {
			return extend(b, args(b, hold(b), time.Second, 0))
		}, "allowed", heldState + " extended"},
		{"at most seven days", func(b *bench) string {
			h := hold(b)
			h.TTL = 0
			b.advance(30 * time.Second)
			return extend(b, args(b, h, 8*24*time.Hour, 0))
		}, "allowed", "expiring +604770000; live 1; opened p; p cap 100 held 10 spent 0 withheld 0; record held; entries policy_changed reserved extended"},
		{"both, replayed", func(b *bench) string {
			a := args(b, hold(b), 2*time.Minute, 5)
			return extend(b, a) + ", " + extend(b, a)
		}, "allowed, allowed replayed", "expiring +120000; " + grown},
		{"reserve replays its first answer", func(b *bench) string {
			h := hold(b)
			extend(b, args(b, h, 2*time.Minute, 5))
			d, err := b.reserve(h)
			return told(d, err) + " " + formatAmounts(d.Amounts) + " " + d.ExpiresAt.Sub(time.UnixMilli(b.nowMS)).String()
		}, "allowed replayed usd_microcents=10 1m0s", "expiring +120000; " + grown},
	})
}

func TestCharge(t *testing.T) {
	t.Parallel()
	charge := func(b *bench, a ChargeArgs) string { return told(b.charge(a)) }
	runRows(t, []row{
		{"replayed", func(b *bench) string {
			a := b.chargeArgs("c", 10, false, b.pool("p", PolicyLimit{Cap: 100}))
			return charge(b, a) + ", " + charge(b, a)
		}, "charged, charged replayed", "opened p; p cap 100 held 0 spent 10 withheld 0; record charged 24h; entries policy_changed charged"},
		{"key reused", func(b *bench) string {
			a := b.chargeArgs("c", 10, false, b.pool("p", PolicyLimit{Cap: 100}))
			charge(b, a)
			a.Fingerprint = "bad"
			return charge(b, a)
		}, "idempotency key reused with other content", "opened p; p cap 100 held 0 spent 10 withheld 0; record charged 24h; entries policy_changed charged"},
		{"zero", func(b *bench) string {
			return charge(b, b.chargeArgs("c", 0, false, b.pool("p", PolicyLimit{Cap: 0})))
		}, "charged", "opened p; p cap 0 held 0 spent 0 withheld 0; record charged 24h; entries policy_changed charged"},
		{"denied", func(b *bench) string {
			return charge(b, b.chargeArgs("c", 101, false, b.pool("p", PolicyLimit{Cap: 100})))
		}, "denied budget_exceeded p", "opened p; p cap 100 held 0 spent 0 withheld 0; record denied 1h; entries policy_changed"},
		{"revoked", func(b *bench) string {
			l := b.pool("p", PolicyLimit{Cap: 100})
			b.revoke(b.agent)
			return charge(b, b.chargeArgs("c", 1, false, l))
		}, "denied revoked", "opened p; p cap 100 held 0 spent 0 withheld 0; record denied 1h; revoked; entries policy_changed agent_revoked"},
		{"incurred skips every denial", func(b *bench) string {
			l := b.pool("p", PolicyLimit{Cap: 100, State: "frozen"})
			b.revoke(b.agent)
			a := b.chargeArgs("c", 101, true, l)
			a.NotAfter = time.UnixMilli(1)
			return charge(b, a)
		}, "charged", "opened p; p cap 100 held 0 spent 101 withheld 0; record charged 24h; revoked; entries policy_changed agent_revoked charged"},
		{"incurred, pool missing", func(b *bench) string {
			l, r := b.pool("p", PolicyLimit{Cap: 100}), b.pool("r", PolicyLimit{Cap: 100})
			b.drop(l)
			return charge(b, b.chargeArgs("c", 10, true, l, r))
		}, "charged pool_missing", "opened p; opened r; r cap 100 held 0 spent 10 withheld 0; record charged 24h; entries policy_changed policy_changed charged"},
		{"pool missing", func(b *bench) string {
			l := b.pool("p", PolicyLimit{Cap: 100})
			b.drop(l)
			return charge(b, b.chargeArgs("c", 10, false, l))
		}, "denied pool_missing p", "opened p; entries policy_changed"},
		{"stale", func(b *bench) string {
			l := b.pool("p", PolicyLimit{Cap: 100})
			l.Rev++
			return charge(b, b.chargeArgs("c", 10, true, l))
		}, "stale policy", opened},
	})
}

func TestExpire(t *testing.T) {
	t.Parallel()
	runRows(t, []row{
		{"early", func(b *bench) string {
			return b.expire(b.hold(10, b.pool("p", PolicyLimit{Cap: 100})).Execution)
		}, "early", heldState},
		{"withheld, then lapsed", func(b *bench) string {
			h := b.hold(10, b.pool("p", PolicyLimit{Cap: 100, LateWindowMS: 1000}), b.pool("r", PolicyLimit{Cap: 50, LateWindowMS: 5000}))
			b.advance(time.Minute)
			out := b.expire(h.Execution)
			b.advance(4999 * time.Millisecond)
			out += " " + b.expire(h.Execution)
			b.advance(time.Millisecond)
			return out + " " + b.expire(h.Execution) + " " + b.expire(h.Execution)
		}, "expired early lapsed gone", "opened p; opened r; p cap 100 held 0 spent 0 withheld 0; r cap 50 held 0 spent 0 withheld 0; record lapsed 30d; entries policy_changed policy_changed reserved expired lapsed"},
		{"no late window", func(b *bench) string {
			h := b.hold(10, b.pool("p", PolicyLimit{Cap: 100}))
			b.advance(time.Minute)
			return b.expire(h.Execution)
		}, "expired", "opened p; p cap 100 held 0 spent 0 withheld 0; record lapsed 30d; entries policy_changed reserved expired"},
		{"late settle in the window", func(b *bench) string {
			h := b.hold(10, b.pool("p", PolicyLimit{Cap: 10, LateWindowMS: 1000}))
			b.advance(time.Minute)
			b.expire(h.Execution)
			return told(b.settle(b.settleArgs(h, 7)))
		}, "late_settled charged usd_microcents=7 returned usd_microcents=3", "opened p; p cap 10 held 0 spent 7 withheld 0; record late_settled 24h; entries policy_changed reserved expired late_settled"},
		{"late settle after lapse passes the cap", func(b *bench) string {
			h := b.hold(10, b.pool("p", PolicyLimit{Cap: 10}))
			b.advance(time.Minute)
			b.expire(h.Execution)
			return told(b.settle(b.settleArgs(h, 17)))
		}, "late_settled overrun usd_microcents=7 charged usd_microcents=17 returned usd_microcents=0", "opened p; p cap 10 held 0 spent 17 withheld 0; record late_settled 24h; entries policy_changed reserved expired late_settled"},
		{"pool missing", func(b *bench) string {
			h := b.hold(10, b.pool("p", PolicyLimit{Cap: 100, LateWindowMS: 1000}))
			b.drop(h.Path[0])
			b.advance(time.Minute)
			return b.expire(h.Execution)
		}, "expired", "expiring +3600000; opened p; record expired 30d; entries policy_changed reserved expired"},
		{"corrupt", func(b *bench) string {
			h := b.hold(10, b.pool("p", PolicyLimit{Cap: 100}))
			b.client.Set(b.Context(), b.store.keysOf(b.org).record(h.Execution), "1 junk", 0)
			b.advance(time.Minute)
			return b.expire(h.Execution)
		}, "corrupt", "opened p; p cap 100 held 10 spent 0 withheld 0; quarantine record_corrupt; record junk; entries policy_changed reserved"},
		{"missing record", func(b *bench) string {
			h := b.hold(10, b.pool("p", PolicyLimit{Cap: 100}))
			b.client.Del(b.Context(), b.store.keysOf(b.org).record(h.Execution))
			b.advance(time.Minute)
			return b.expire(h.Execution)
		}, "corrupt", "opened p; p cap 100 held 10 spent 0 withheld 0; quarantine record_missing; entries policy_changed reserved"},
	})
}
