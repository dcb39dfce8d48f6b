package redisx

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"tallystick/pkg/budget"
)

// ReserveArgs is one reserve. Path lists the limits from the named pool to its
// root, units in byte order within a pool; every limit's unit is in Amounts.
type ReserveArgs struct {
	Agent       budget.Agent
	Execution   string // ExecutionID; empty for a dry run
	Fingerprint string
	Settler     string
	Amounts     budget.Amounts
	TTL         time.Duration
	Path        []budget.Limit
	Slots       []budget.Slot
	Target      string
	NotAfter    time.Time // later it is denied deadline_passed; zero: never
	Extra       Extra
	DryRun      bool
}

// Reserve adds a reserve to the batch: lua/reserve.lua.
//
// Decision: Allowed or Refused. Errors: ErrKeyReused, ErrStalePolicy,
// ErrUnavailable.
func (b *Batch) Reserve(a ReserveArgs) *Pending {
	c := &reserveCall{store: b.store, args: a}
	for _, s := range a.Slots {
		if !plain(s.Pool + s.Pattern) {
			c.Err = fmt.Errorf("redisx: a slot's name with control characters: %q", s.Pattern)
			return &c.Pending
		}
	}
	b.calls = append(b.calls, c)
	return &c.Pending
}

type reserveCall struct {
	Pending
	store *Store
	args  ReserveArgs
}

func (c *reserveCall) command() (*script, []string, []any) {
	a, k := &c.args, c.store.keysOf(c.args.Agent.Org)
	a.Extra.TTLMS, a.Extra.Target = a.TTL.Milliseconds(), a.Target
	keys := append(make([]string, 0, 7+len(a.Path)+len(a.Slots)), k.record(a.Execution), k.expiring,
		k.live(a.Agent.Org, a.Agent.ID), k.revoked, k.epoch, k.opened, k.outbox)
	args := append(make([]any, 0, 10+len(a.Agent.Ancestors)+3*len(a.Path)+len(a.Slots)), a.Execution,
		holdBody(a.Fingerprint, a.Agent, a.Settler, a.Amounts, limitsLine(a.Path), slotsLine(a.Slots), a.Extra),
		a.TTL.Milliseconds(), notAfterMS(a.NotAfter), bit(a.DryRun), len(a.Path), len(a.Slots), bit(timed(a.Path)))
	args = appendAgents(args, a.Agent)
	for _, l := range a.Path {
		keys = append(keys, k.limit(a.Agent.Org, l.LimitID))
		args = append(args, strconv.FormatInt(a.Amounts[l.Unit], 10), l.Rev, ceiling(l.Ceiling))
	}
	for _, s := range a.Slots {
		keys = append(keys, k.slot(a.Agent.Org, s.Pool, s.Pattern))
		args = append(args, s.Max)
	}
	return c.store.scripts["reserve"], keys, args
}

// timed reports whether a limit of a path has a period, hence bounds to look at.
func timed(path []budget.Limit) bool {
	return slices.ContainsFunc(path, func(l budget.Limit) bool { return l.Period != budget.PeriodNone })
}

func (c *reserveCall) reply(v []string) (again bool, err error) {
	switch v[0] {
	case "known":
		return false, c.known(v[1])
	case "stale":
		return false, budget.ErrStalePolicy
	case "denied":
		c.Decision.Outcome = budget.Refused
		c.Decision.Denial, err = denial(v[1:], limitIDs(c.args.Path), c.args.Slots, c.args.Amounts)
		return false, err
	case "allowed":
		return false, c.allowed(v)
	}
	return false, unexpected("reserve", v)
}

func (c *reserveCall) allowed(v []string) (err error) {
	d := &c.Decision
	if d.ExpiresAt, err = parseMS(v[1]); err != nil {
		return err
	}
	d.Outcome, d.Reservation, d.Amounts, d.ExpiresIn = budget.Allowed, c.args.Execution, c.args.Amounts, c.args.TTL
	d.Pools, err = rowsAfter(c.args.Path, v[2], func(r *budget.PoolRow) { r.Held += c.args.Amounts[r.Unit] })
	return err
}

// known answers from the record that was found under the key.
func (c *reserveCall) known(text string) error {
	r, err := ParseRecord(text)
	if err != nil {
		return err
	}
	if r.State != budget.StateTombstone && r.Fingerprint != c.args.Fingerprint {
		return budget.ErrKeyReused
	}
	c.Decision, err = r.replay(c.args.Execution)
	return err
}
