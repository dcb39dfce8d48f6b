package redisx

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"tallystick/pkg/budget"
)

const (
	settledState = "; record settled 24h; entries policy_changed reserved settled"
	heldState    = "expiring +60000; live 1; opened p; p cap 100 held 10 spent 0 withheld 0; record held; entries policy_changed reserved"
)

func TestSettle(t *testing.T) {
	t.Parallel()
	hold := func(b *bench) ReserveArgs {
		return b.hold(10, b.pool("p", PolicyLimit{Cap: 100, LateWindowMS: 3600000}))
	}
	settle := func(b *bench, a SettleArgs) string { return told(b.settle(a)) }
	absent := func(b *bench, status string, dispatched *bool, final bool) string {
		a := b.settleArgs(hold(b), 0)
		a.Actual, a.Status, a.Dispatched, a.Final = nil, status, dispatched, final
		return settle(b, a)
	}
	yes, no := true, false
	spent := func(n int) string {
		return fmt.Sprintf("opened p; p cap 100 held 0 spent %d withheld 0", n) + settledState
	}
	runRows(t, []row{
		{"fenced", func(b *bench) string {
			a := b.settleArgs(hold(b), 5)
			defer b.fence()()
			return settle(b, a)
		}, "unavailable", heldState},
		{"absent", func(b *bench) string {
			a := b.settleArgs(hold(b), 5)
			a.Execution = uuid.NewString()
			return settle(b, a)
		}, "not found", heldState},
		{"somebody else's", func(b *bench) string {
			a := b.settleArgs(hold(b), 5)
			a.Caller.ID = uuid.NewString()
			return settle(b, a)
		}, "not found", heldState},
		{"another org's", func(b *bench) string {
			a := b.settleArgs(hold(b), 5)
			for other := 0; a.Caller.Org == b.org || b.store.Partition(a.Caller.Org) != b.store.Partition(b.org); other++ {
				a.Caller.Org = fmt.Sprintf("x%d", other)
			}
			a.Operator = true
			return settle(b, a)
		}, "not found", heldState},
		{"a denied reserve", func(b *bench) string {
			a := b.reserveArgs("k", 101, b.pool("p", PolicyLimit{Cap: 100}))
			told(b.reserve(a))
			return settle(b, b.settleArgs(a, 5))
		}, "not found", "opened p; p cap 100 held 0 spent 0 withheld 0; record denied 1h; entries policy_changed"},
		{"replayed", func(b *bench) string {
			a := b.settleArgs(hold(b), 4)
			first := settle(b, a)
			return first + ", " + settle(b, a)
		}, "settled charged usd_microcents=4 returned usd_microcents=6, settled charged usd_microcents=4 returned usd_microcents=6 replayed", spent(4)},
		{"key reused", func(b *bench) string {
			a := b.settleArgs(hold(b), 4)
			settle(b, a)
			a.Fingerprint = "bad"
			return settle(b, a)
		}, "idempotency key reused with other content", spent(4)},
		{"already settled", func(b *bench) string {
			h := hold(b)
			settle(b, b.settleArgs(h, 4))
			return settle(b, b.settleArgs(h, 4))
		}, "already settled", spent(4)},
		{"already released", func(b *bench) string {
			h := hold(b)
			told(b.release(ReleaseArgs{Caller: b.agent, Execution: h.Execution, Key: "r", Guess: h.Path}))
			return settle(b, b.settleArgs(h, 4))
		}, "already released", "opened p; p cap 100 held 0 spent 0 withheld 0; record released 24h; entries policy_changed reserved released"},
		{"tombstone", func(b *bench) string {
			b.pool("p", PolicyLimit{Cap: 100})
			a := b.reserveArgs("k", 1)
			told(b.release(ReleaseArgs{Caller: b.agent, Execution: a.Execution, Key: "r", ByKey: true}))
			return settle(b, b.settleArgs(a, 4))
		}, "already released", "opened p; p cap 100 held 0 spent 0 withheld 0; record tombstone 1h; entries policy_changed"},
		{"unit unknown", func(b *bench) string {
			a := b.settleArgs(hold(b), 4)
			a.Actual["tokens"] = 1
			return settle(b, a)
		}, "unit unknown: tokens", heldState},
		{"keys corrected", func(b *bench) string {
			a := b.settleArgs(hold(b), 10)
			a.Guess = nil
			return settle(b, a)
		}, "settled charged usd_microcents=10 returned usd_microcents=0", spent(10)},
		{
			"actual zero", func(b *bench) string { return settle(b, b.settleArgs(hold(b), 0)) },
			"settled charged usd_microcents=0 returned usd_microcents=10", spent(0),
		},
		{
			"unknown, no actual", func(b *bench) string { return absent(b, "unknown", nil, true) },
			"settled charged usd_microcents=10 returned usd_microcents=0 cost_unknown", spent(10),
		},
		{
			"success, no actual", func(b *bench) string { return absent(b, "success", nil, true) },
			"settled charged usd_microcents=10 returned usd_microcents=0 cost_unknown", spent(10),
		},
		{
			"failure never dispatched", func(b *bench) string { return absent(b, "failure", &no, true) },
			"settled charged usd_microcents=0 returned usd_microcents=10", spent(0),
		},
		{
			"failure dispatched", func(b *bench) string { return absent(b, "failure", &yes, true) },
			"settled charged usd_microcents=10 returned usd_microcents=0 cost_unknown", spent(10),
		},
		{
			"failure, dispatch unknown", func(b *bench) string { return absent(b, "failure", nil, true) },
			"settled charged usd_microcents=10 returned usd_microcents=0 cost_unknown", spent(10),
		},
		{"not final", func(b *bench) string {
			a := b.settleArgs(hold(b), 3)
			a.Final = false
			return settle(b, a)
		}, "settled charged usd_microcents=10 returned usd_microcents=0 cost_unknown", spent(10)},
		{"by an ancestor", func(b *bench) string {
			a := b.reserveArgs("k", 10, b.pool("p", PolicyLimit{Cap: 100}))
			a.Agent.Ancestors = []string{uuid.NewString(), uuid.NewString()}
			told(b.reserve(a))
			s := b.settleArgs(a, 10)
			s.Caller.ID = a.Agent.Ancestors[1]
			return settle(b, s)
		}, "settled charged usd_microcents=10 returned usd_microcents=0", spent(10)},
		{"by the named settler", func(b *bench) string {
			a := b.reserveArgs("k", 10, b.pool("p", PolicyLimit{Cap: 100}))
			a.Settler = uuid.NewString()
			told(b.reserve(a))
			s := b.settleArgs(a, 10)
			s.Caller.ID = a.Settler
			return settle(b, s)
		}, "settled charged usd_microcents=10 returned usd_microcents=0", spent(10)},
		{"by an operator, after revocation", func(b *bench) string {
			s := b.settleArgs(hold(b), 10)
			b.revoke(b.agent)
			s.Caller.ID, s.Operator = "", true
			return settle(b, s)
		}, "settled charged usd_microcents=10 returned usd_microcents=0", "opened p; p cap 100 held 0 spent 10 withheld 0; record settled 24h; revoked; entries policy_changed reserved agent_revoked settled"},
		{"pool missing", func(b *bench) string {
			h := hold(b)
			b.drop(h.Path[0])
			return settle(b, b.settleArgs(h, 10))
		}, "settled charged usd_microcents=10 returned usd_microcents=0 pool_missing", "opened p" + settledState},
		{"slot freed", func(b *bench) string {
			l := b.pool("p", PolicyLimit{Cap: 100})
			a := b.slotted(b.reserveArgs("k", 10, l), 1)
			told(b.reserve(a))
			return settle(b, b.settleArgs(a, 10))
		}, "settled charged usd_microcents=10 returned usd_microcents=0", spent(10)},
	})
}

func TestSettleOverrun(t *testing.T) {
	t.Parallel()
	settle := func(b *bench, a SettleArgs) string { return told(b.settle(a)) }
	refused := "expiring +60000; live 1; opened p; p cap 100 held 10 spent 0 withheld 0; record held; entries policy_changed reserved overrun_refused"
	runRows(t, []row{
		{"beyond epsilon", func(b *bench) string {
			a := b.settleArgs(b.hold(10, b.pool("p", PolicyLimit{Cap: 100, Epsilon: 5})), 16)
			return settle(b, a) + ", " + settle(b, a)
		}, "denied overrun, denied overrun replayed", refused},
		{"refusal's key with other content", func(b *bench) string {
			a := b.settleArgs(b.hold(10, b.pool("p", PolicyLimit{Cap: 100})), 16)
			settle(b, a)
			a.Fingerprint = "bad"
			return settle(b, a)
		}, "idempotency key reused with other content", refused},
		{"within epsilon", func(b *bench) string {
			return settle(b, b.settleArgs(b.hold(10, b.pool("p", PolicyLimit{Cap: 100, Epsilon: 5})), 15))
		}, "settled overrun usd_microcents=5 charged usd_microcents=15 returned usd_microcents=0", "opened p; p cap 100 held 0 spent 15 withheld 0" + settledState},
		{"epsilon never passes the cap", func(b *bench) string {
			l := b.pool("p", PolicyLimit{Cap: 12, Epsilon: 5})
			return settle(b, b.settleArgs(b.hold(10, l), 13))
		}, "denied overrun", "expiring +60000; live 1; opened p; p cap 12 held 10 spent 0 withheld 0; record held; entries policy_changed reserved overrun_refused"},
		{"charged past the cap, then debt", func(b *bench) string {
			l := b.pool("p", PolicyLimit{Cap: 12, OnOverrun: "charge"})
			first := settle(b, b.settleArgs(b.hold(10, l), 13))
			return first + ", " + told(b.reserve(b.reserveArgs("next", 1, l)))
		}, "settled overrun usd_microcents=3 charged usd_microcents=13 returned usd_microcents=0, denied debt p", "opened p; p cap 12 held 0 spent 13 withheld 0; record denied 1h" + settledState},
		{"one limit of two refuses whole", func(b *bench) string {
			l, r := b.pool("p", PolicyLimit{Cap: 100, OnOverrun: "charge"}), b.pool("r", PolicyLimit{Cap: 100})
			return settle(b, b.settleArgs(b.hold(10, l, r), 11))
		}, "denied overrun", "expiring +60000; live 1; opened p; opened r; p cap 100 held 10 spent 0 withheld 0; r cap 100 held 10 spent 0 withheld 0; record held; entries policy_changed policy_changed reserved overrun_refused"},
		{"extended, then settled", func(b *bench) string {
			h := b.hold(10, b.pool("p", PolicyLimit{Cap: 100}))
			settle(b, b.settleArgs(h, 16))
			told(b.extend(ExtendArgs{Caller: b.agent, Execution: h.Execution, Key: "e", Fingerprint: "e", Add: budget.Amounts{"usd_microcents": 6}, Guess: h.Path}))
			return settle(b, b.settleArgs(h, 16))
		}, "settled charged usd_microcents=16 returned usd_microcents=0", "opened p; p cap 100 held 0 spent 16 withheld 0; record settled 24h; entries policy_changed reserved overrun_refused extended settled"},
		{"left to its deadline", func(b *bench) string {
			h := b.hold(10, b.pool("p", PolicyLimit{Cap: 100, LateWindowMS: 3600000}))
			settle(b, b.settleArgs(h, 16))
			b.advance(time.Minute)
			return b.expire(h.Execution) + ", " + told(b.release(ReleaseArgs{Caller: b.agent, Execution: h.Execution, Key: "r", Guess: h.Path}))
		}, "expired, denied overrun", "opened p; p cap 100 held 0 spent 10 withheld 0; record expired 30d; entries policy_changed reserved overrun_refused expired"},
		{"left to its deadline, then settled", func(b *bench) string {
			h := b.hold(10, b.pool("p", PolicyLimit{Cap: 100, LateWindowMS: 3600000}))
			settle(b, b.settleArgs(h, 16))
			b.advance(time.Minute)
			b.expire(h.Execution)
			return settle(b, b.settleArgs(h, 16))
		}, "late_settled overrun usd_microcents=6 charged usd_microcents=6 returned usd_microcents=0", "opened p; p cap 100 held 0 spent 16 withheld 0; record late_settled 24h; entries policy_changed reserved overrun_refused expired late_settled"},
	})
}

// TestAttemptsEnd: sixteen attempts are remembered, the next is refused, and a
// settle that fits is always accepted.
func TestAttemptsEnd(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, fresh func(testing.TB) *bench) {
		b := fresh(t)
		l := b.pool("p", PolicyLimit{Cap: 100})
		h := b.hold(10, l)
		for range 16 {
			if got := told(b.settle(b.settleArgs(h, 50))); got != "denied overrun" {
				t.Fatal(got)
			}
		}
		if got := told(b.settle(b.settleArgs(h, 50))); got != budget.ErrAttempts.Error() {
			t.Errorf("seventeenth: %s", got)
		}
		if got := told(b.settle(b.settleArgs(h, 10))); got != "settled charged usd_microcents=10 returned usd_microcents=0" {
			t.Errorf("fitting: %s", got)
		}
		b.lawful(l)
	})
}
