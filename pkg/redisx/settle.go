package redisx

import (
	"tallystick/pkg/budget"
)

// Operator is the caller id that stands for operators in entries.
const Operator = "operator"

// SettleArgs is one settle. Guess is the presumable path of the reservation;
// where it is wrong the script says so and the batch repeats the call once.
type SettleArgs struct {
	Caller      budget.Agent
	Operator    bool
	Execution   string
	Key         string
	Fingerprint string
	Actual      budget.Amounts // nil: absent
	Status      string         // success, failure, unknown
	Dispatched  *bool
	Final       bool
	Usage       []byte // JSON
	Guess       []budget.Limit
	By, Why     string // of an operator, for the entry; By "": Operator
}

// Settle adds a settle to the batch: lua/settle.lua.
//
// Decision: Settled, LateSettled, or Refused with ReasonOverrun. Errors:
// ErrNotFound, ErrKeyReused, ErrAlreadySettled, ErrAlreadyReleased, UnitError,
// ErrAttempts, ErrUnavailable.
func (b *Batch) Settle(a SettleArgs) *Pending {
	c := &settleCall{store: b.store, args: a, guess: guessOf(a.Caller.Org, a.Caller.ID, a.Guess)}
	c.keyID = keyID(callerID(a.Caller, a.Operator), "settle", a.Key)
	b.calls = append(b.calls, c)
	return &c.Pending
}

type settleCall struct {
	Pending
	store *Store
	args  SettleArgs
	guess guess
	keyID string
}

func callerID(a budget.Agent, operator bool) string {
	if operator {
		return Operator
	}
	return a.ID
}

// actor is who stands in the entry: admins are operators to the scripts.
func actor(caller, by string) string {
	if caller == Operator && by != "" {
		return by
	}
	return caller
}

func (c *settleCall) command() (*script, []string, []any) {
	a, k := &c.args, c.store.keysOf(c.args.Caller.Org)
	keys := append(make([]string, 0, 6+len(c.guess.ids)+len(c.guess.slotIDs)), k.record(a.Execution), k.lapsing,
		k.live(a.Caller.Org, c.guess.holder), k.revoked, k.epoch, k.outbox)
	actual, dispatched := "-", ""
	if a.Actual != nil {
		actual = formatAmounts(a.Actual)
	}
	if a.Dispatched != nil {
		dispatched = map[bool]string{true: "true", false: "false"}[*a.Dispatched]
	}
	given := ""
	if a.Actual != nil {
		given = amountsJSON(a.Actual)
	}
	caller := callerID(a.Caller, a.Operator)
	args := append(make([]any, 0, 15+len(c.guess.ids)), a.Execution, a.Caller.Org, caller, bit(a.Operator), c.keyID,
		a.Fingerprint, c.guess.holder, c.guess.limits, c.guess.slots, actual, a.Status, dispatched, bit(a.Final),
		request("by", quote(actor(caller, a.By)), "why", quoteOrNone(a.Why), "settle_key", quoteOrNone(a.Key), "status", quoteOrNone(a.Status), "actual", given,
			"usage", oneLine(a.Usage)))
	return c.store.scripts["settle"], c.guess.keys(keys, k), c.guess.units(args)
}

func (c *settleCall) reply(v []string) (bool, error) {
	switch v[0] {
	case "absent":
		return false, budget.ErrNotFound
	case "corrupt":
		return false, errRecord
	case "unit_unknown":
		return false, &budget.UnitError{Unit: v[1]}
	case "attempts":
		return false, budget.ErrAttempts
	}
	if len(v) < 2 {
		return false, unexpected("settle", v)
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
	case "overrun":
		return false, c.refused(r.Attempts[len(r.Attempts)-1])
	case "settled", "late_settled":
		return false, c.settled(r)
	}
	return false, unexpected("settle", v)
}

func (c *settleCall) settled(r Record) error {
	res, err := r.settled()
	if err != nil {
		return err
	}
	d := &c.Decision
	d.Outcome, d.Reservation = budget.Settled, c.args.Execution
	if r.State == budget.StateLateSettled {
		d.Outcome = budget.LateSettled
	}
	d.Charged, d.Returned, d.Overrun = res.charged, res.returned, res.overrun
	d.CostUnknown, d.PoolMissing = res.costUnknown, res.poolMissing
	return nil
}

// refused answers from an attempt: amounts booked, authorised, epsilon.
func (c *settleCall) refused(a Attempt) error {
	if len(a.Words) != 3 {
		return errRecord
	}
	var err [3]error
	d := &c.Decision
	d.Outcome, d.Reservation = budget.Refused, c.args.Execution
	d.Denial = &budget.Denial{Reason: budget.ReasonOverrun}
	d.Actual, err[0] = parseAmounts(a.Words[0])
	d.Authorised, err[1] = parseAmounts(a.Words[1])
	d.Epsilon, err[2] = parseAmounts(a.Words[2])
	for _, e := range err {
		if e != nil {
			return e
		}
	}
	return nil
}

// known replays this key's answer, or says what another key has done.
func (c *settleCall) known(r Record) error {
	if fingerprint, ok := r.resolvedBy(c.keyID); ok && r.Resolution[0] == "settle" {
		if fingerprint != c.args.Fingerprint {
			return budget.ErrKeyReused
		}
		c.Decision.Replayed = true
		return c.settled(r)
	}
	if a, ok := r.attempt(c.keyID); ok && a.Verb == "settle" {
		if a.Fingerprint != c.args.Fingerprint {
			return budget.ErrKeyReused
		}
		c.Decision.Replayed = true
		return c.refused(a)
	}
	return r.conflict()
}
