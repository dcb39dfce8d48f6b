package redisx

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"tallystick/pkg/budget"
)

// ChargeArgs is one charge: money spent in one step. Amounts may be 0.
type ChargeArgs struct {
	Agent       budget.Agent
	Execution   string
	Fingerprint string
	Amounts     budget.Amounts
	Path        []budget.Limit
	Incurred    bool // already spent elsewhere: always booked
	NotAfter    time.Time
	Extra       Extra
}

// Charge adds a charge to the batch: lua/charge.lua.
//
// Decision: Charged or Refused. Errors: ErrKeyReused, ErrStalePolicy,
// ErrUnavailable.
func (b *Batch) Charge(a ChargeArgs) *Pending {
	c := &chargeCall{store: b.store, args: a}
	b.calls = append(b.calls, c)
	return &c.Pending
}

type chargeCall struct {
	Pending
	store *Store
	args  ChargeArgs
}

func (c *chargeCall) command() (*script, []string, []any) {
	a, k := &c.args, c.store.keysOf(c.args.Agent.Org)
	keys := append(make([]string, 0, 5+len(a.Path)), k.record(a.Execution), k.revoked, k.epoch, k.opened, k.outbox)
	args := append(make([]any, 0, 7+len(a.Agent.Ancestors)+2*len(a.Path)), a.Execution,
		holdBody(a.Fingerprint, a.Agent, "", a.Amounts, limitsLine(a.Path), "", a.Extra),
		notAfterMS(a.NotAfter), bit(a.Incurred), len(a.Path))
	args = appendAgents(args, a.Agent)
	for _, l := range a.Path {
		keys = append(keys, k.limit(a.Agent.Org, l.LimitID))
		args = append(args, strconv.FormatInt(a.Amounts[l.Unit], 10), l.Rev)
	}
	return c.store.scripts["charge"], keys, args
}

func (c *chargeCall) reply(v []string) (again bool, err error) {
	d := &c.Decision
	switch v[0] {
	case "known":
		return false, c.known(v[1])
	case "stale":
		return false, budget.ErrStalePolicy
	case "denied":
		d.Outcome = budget.Refused
		d.Denial, err = denial(v[1:], limitIDs(c.args.Path), nil, c.args.Amounts)
		return false, err
	case "charged":
		d.Outcome, d.Charged = budget.Charged, c.args.Amounts
		d.Pools, err = rowsAfter(c.args.Path, v[1], func(r *budget.PoolRow) { r.Spent += c.args.Amounts[r.Unit] })
		d.PoolMissing = slices.Contains(strings.Fields(v[1]), "-")
		return false, err
	}
	return false, unexpected("charge", v)
}

func (c *chargeCall) known(text string) error {
	r, err := ParseRecord(text)
	if err != nil {
		return err
	}
	if r.Fingerprint != c.args.Fingerprint {
		return budget.ErrKeyReused
	}
	c.Decision, err = r.replay(c.args.Execution)
	return err
}
