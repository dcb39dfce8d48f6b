package redisx

import (
	"strconv"
	"time"

	"tallystick/pkg/budget"
)

// ExtendArgs is one extend: a later deadline, more amounts, or both.
type ExtendArgs struct {
	Caller      budget.Agent
	Operator    bool
	Execution   string
	Key         string
	Fingerprint string
	TTL         time.Duration // 0: leave the deadline
	Add         budget.Amounts
	NotAfter    time.Time
	Guess       []budget.Limit
}

// Extend adds an extend to the batch: lua/extend.lua.
//
// Decision: Allowed or Refused, as Reserve. Errors: ErrNotFound, ErrKeyReused,
// ErrAlreadySettled, ErrAlreadyReleased, ErrAlreadyExpired, UnitError,
// ErrAttempts, ErrUnavailable.
func (b *Batch) Extend(a ExtendArgs) *Pending {
	c := &extendCall{store: b.store, args: a, guess: guessOf(a.Caller.Org, a.Caller.ID, a.Guess)}
	c.keyID = keyID(callerID(a.Caller, a.Operator), "extend", a.Key)
	b.calls = append(b.calls, c)
	return &c.Pending
}

type extendCall struct {
	Pending
	store *Store
	args  ExtendArgs
	guess guess
	keyID string
}

func (c *extendCall) command() (*script, []string, []any) {
	a, k := &c.args, c.store.keysOf(c.args.Caller.Org)
	keys := append(make([]string, 0, 6+len(c.guess.ids)+len(c.guess.slotIDs)), k.record(a.Execution),
		k.live(a.Caller.Org, c.guess.holder), k.revoked, k.epoch, k.opened, k.outbox)
	add, given := "-", ""
	if len(a.Add) > 0 {
		add, given = formatAmounts(a.Add), amountsJSON(a.Add)
	}
	caller := callerID(a.Caller, a.Operator)
	args := append(make([]any, 0, 14+len(c.guess.ids)), a.Execution, a.Caller.Org, caller, bit(a.Operator), c.keyID,
		a.Fingerprint, c.guess.holder, c.guess.limits, c.guess.slots, a.TTL.Milliseconds(), add, notAfterMS(a.NotAfter),
		request("by", quote(caller), "extend_key", quoteOrNone(a.Key), "added", given))
	args = c.guess.units(args)
	if !a.Operator {
		for _, ancestor := range a.Caller.Ancestors {
			args = append(args, ancestor)
		}
	}
	return c.store.scripts["extend"], c.guess.keys(keys, k), args
}

func (c *extendCall) reply(v []string) (bool, error) {
	switch v[0] {
	case "absent":
		return false, budget.ErrNotFound
	case "expired":
		return false, budget.ErrAlreadyExpired
	case "attempts":
		return false, budget.ErrAttempts
	case "stale":
		return false, budget.ErrStalePolicy
	case "unit_unknown":
		return false, &budget.UnitError{Unit: v[1]}
	}
	if len(v) < 2 {
		return false, unexpected("extend", v)
	}
	r, err := ParseRecord(v[1])
	if err != nil {
		return false, err
	}
	switch v[0] {
	case "keys":
		c.guess.correct(r)
		return true, nil
	case "known":
		return false, c.known(r)
	case "denied":
		return false, c.denied(r, v[2:])
	case "allowed":
		return false, c.allowed(r, v)
	}
	return false, unexpected("extend", v)
}

func (c *extendCall) denied(r Record, v []string) (err error) {
	c.Decision.Outcome = budget.Refused
	c.Decision.Denial, err = denial(v, r.Limits, r.Slots, c.args.Add)
	return err
}

func (c *extendCall) allowed(r Record, v []string) error {
	left, err := strconv.ParseInt(v[2], 10, 64)
	if err != nil {
		return err
	}
	d := &c.Decision
	d.Outcome, d.Reservation, d.Amounts = budget.Allowed, c.args.Execution, r.Amounts
	d.ExpiresAt, d.ExpiresIn = r.ExpiresAt, time.Duration(left)*time.Millisecond
	path := make([]budget.Limit, len(r.Limits))
	for i, id := range r.Limits {
		path[i].LimitID = id
	}
	d.Pools, err = rowsAfter(path, v[3], func(row *budget.PoolRow) { row.Held += c.args.Add[row.Unit] })
	return err
}

// known replays this key's remembered answer, or says who resolved it.
func (c *extendCall) known(r Record) error {
	a, ok := r.attempt(c.keyID)
	if !ok || a.Verb != "extend" {
		return r.conflict()
	}
	if a.Fingerprint != c.args.Fingerprint {
		return budget.ErrKeyReused
	}
	d := &c.Decision
	d.Replayed = true
	if a.Words[0] == "denied" {
		return c.denied(r, a.Words[1:])
	}
	if len(a.Words) != 4 {
		return errRecord
	}
	var err error
	if d.Amounts, err = parseAmounts(a.Words[1]); err != nil {
		return err
	}
	d.ExpiresAt, err = parseMS(a.Words[2])
	d.Outcome, d.Reservation = budget.Allowed, c.args.Execution
	return err
}
