package redisx

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/uuid"

	"tallystick/pkg/budget"
)

func (b *bench) policy(rev int64, limits ...PolicyLimit) string {
	b.Helper()
	for i := range limits {
		limits[i].Unit, limits[i].Period, limits[i].OnOverrun, limits[i].State = "usd_microcents", "none", "reject", "open"
	}
	res, err := b.store.ApplyPolicy(b.Context(), PolicyArgs{Org: b.org, Pool: "p", Rev: rev, Limits: limits})
	if err != nil {
		return told(budget.Decision{}, err)
	}
	return fmt.Sprint(res.Applied, " ", res.RedisRev)
}

func TestPolicy(t *testing.T) {
	t.Parallel()
	runRows(t, []row{
		{"fenced", func(b *bench) string {
			defer b.fence()()
			return b.policy(1, PolicyLimit{Cap: 100})
		}, "unavailable", "entries "},
		{"not a cap", func(b *bench) string { return b.policy(1, PolicyLimit{Cap: -1}) }, `redisx: policy.lua answered "invalid"`, "entries "},
		{"a name that would break a line", func(b *bench) string {
			_, err := b.store.ApplyPolicy(b.Context(), PolicyArgs{Org: b.org, Pool: "p\tq", Rev: 1, Limits: []PolicyLimit{{Unit: "u"}}})
			return fmt.Sprint(err != nil)
		}, "true", "entries "},
		{"created", func(b *bench) string { return b.policy(1, PolicyLimit{Cap: 100}) }, "true 1", opened},
		{"the same again", func(b *bench) string {
			return b.policy(1, PolicyLimit{Cap: 100}) + ", " + b.policy(1, PolicyLimit{Cap: 100})
		}, "true 1, false 1", opened},
		{"changed", func(b *bench) string {
			return b.policy(1, PolicyLimit{Cap: 50}) + ", " + b.policy(2, PolicyLimit{Cap: 100})
		}, "true 1, true 2", opened + " policy_changed"},
		{"older than Redis", func(b *bench) string {
			return b.policy(2, PolicyLimit{Cap: 100}) + ", " + b.policy(1, PolicyLimit{Cap: 50})
		}, "true 2, false 2", opened},
		{"gone stays gone", func(b *bench) string {
			b.drop(b.pool("p", PolicyLimit{Cap: 100}))
			return b.policy(7, PolicyLimit{Cap: 200})
		}, "false 7", "opened p; entries policy_changed"},
		{
			"lowered below what is used", func(b *bench) string {
				l := b.pool("p", PolicyLimit{Cap: 100})
				h := b.hold(60, l)
				first := b.policy(7, PolicyLimit{Cap: 10})
				l.Rev = 7
				return first + ", " + told(b.reserve(b.reserveArgs("more", 1, l))) + ", " + told(b.settle(b.settleArgs(h, 60)))
			}, "true 7, denied budget_exceeded p, settled charged usd_microcents=60 returned usd_microcents=0",
			"opened p; p cap 10 held 0 spent 60 withheld 0; record denied 1h; record settled 24h; entries policy_changed reserved policy_changed settled",
		},
	})
}

func TestRegisterAndRevoke(t *testing.T) {
	t.Parallel()
	register := func(b *bench, ancestors ...string) string {
		a := budget.Agent{Org: b.org, ID: uuid.NewString(), Ancestors: ancestors}
		err := b.store.RegisterAgent(b.Context(), RegisterArgs{Agent: a, Name: "n", Pool: "p", Root: a.ID})
		if errors.Is(err, ErrRevoked) {
			return "revoked"
		}
		return fmt.Sprint(err)
	}
	runRows(t, []row{
		{"registered", func(b *bench) string { return register(b) }, "<nil>", "entries agent_registered"},
		{"under a revoked ancestor", func(b *bench) string {
			b.revoke(b.agent)
			return register(b, uuid.NewString(), b.agent.ID)
		}, "revoked", "revoked; entries agent_revoked"},
		{"revoked twice", func(b *bench) string {
			b.revoke(b.agent)
			b.revoke(b.agent)
			return "ok"
		}, "ok", "revoked; entries agent_revoked"},
		{"fenced", func(b *bench) string {
			defer b.fence()()
			err := b.store.Revoke(b.Context(), b.agent, Operator, "")
			return told(budget.Decision{}, err)
		}, "unavailable", "entries "},
	})
}

func TestBalance(t *testing.T) {
	t.Parallel()
	runRows(t, []row{
		{
			"in the order asked, missing ones told", func(b *bench) string {
				p, r := b.pool("p", PolicyLimit{Cap: 100}), b.pool("r", PolicyLimit{Cap: 50})
				b.hold(7, p, r)
				b.drop(r)
				batch := b.store.Batch()
				got := batch.Balance(b.org, []budget.LimitID{r.LimitID, p.LimitID})
				batch.Run(b.Context())
				return fmt.Sprint(got.Err, " ", got.Rows[1].Counters, " ", got.Missing)
			}, "<nil> {100 0 7 0 0} [{r usd_microcents none}]",
			"expiring +60000; live 1; opened p; opened r; p cap 100 held 7 spent 0 withheld 0; record held; entries policy_changed policy_changed reserved",
		},
	})
}
