package redisx

import (
	"tallystick/pkg/budget"
)

// ReleaseArgs is one release. ByKey says that Execution was computed from the
// caller's own key, so that an unknown one leaves a tombstone.
type ReleaseArgs struct {
	Caller      budget.Agent
	Operator    bool
	Execution   string
	Key         string
	Fingerprint string
	Reason      string
	Guess       []budget.Limit
	ByKey       bool
	By, Why     string // of an operator, for the entry; By "": Operator
}

// Release adds a release to the batch: lua/release.lua.
//
// Decision: Released, or Refused with ReasonOverrun. Errors: ErrNotFound,
// ErrKeyReused, ErrAlreadySettled, ErrAlreadyReleased, ErrUnavailable.
func (b *Batch) Release(a ReleaseArgs) *Pending {
	c := &releaseCall{store: b.store, args: a, guess: guessOf(a.Caller.Org, a.Caller.ID, a.Guess)}
	c.keyID = keyID(callerID(a.Caller, a.Operator), "release", a.Key)
	b.calls = append(b.calls, c)
	return &c.Pending
}

type releaseCall struct {
	Pending
	store *Store
	args  ReleaseArgs
	guess guess
	keyID string
}

func (c *releaseCall) command() (*script, []string, []any) {
	a, k := &c.args, c.store.keysOf(c.args.Caller.Org)
	keys := append(make([]string, 0, 6+len(c.guess.ids)+len(c.guess.slotIDs)), k.record(a.Execution), k.lapsing,
		k.live(a.Caller.Org, c.guess.holder), k.revoked, k.epoch, k.outbox)
	tombstone := ""
	if a.ByKey {
		tombstone = holdBody("", a.Caller, "", nil, "", "", Extra{}) + "\n"
	}
	caller := callerID(a.Caller, a.Operator)
	args := append(make([]any, 0, 12+len(c.guess.ids)), a.Execution, a.Caller.Org, caller, bit(a.Operator), c.keyID,
		a.Fingerprint, c.guess.holder, c.guess.limits, c.guess.slots, tombstone,
		request("by", quote(actor(caller, a.By)), "why", quoteOrNone(a.Why), "release_key", quoteOrNone(a.Key), "reason", quoteOrNone(a.Reason)))
	return c.store.scripts["release"], c.guess.keys(keys, k), c.guess.units(args)
}

func (c *releaseCall) reply(v []string) (bool, error) {
	d := &c.Decision
	switch v[0] {
	case "absent":
		return false, budget.ErrNotFound
	case "corrupt":
		return false, errRecord
	case "tombstone":
		d.Outcome, d.Reservation, d.Returned = budget.Released, c.args.Execution, budget.Amounts{}
		return false, nil
	}
	if len(v) < 2 {
		return false, unexpected("release", v)
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
		d.Outcome, d.Reservation = budget.Refused, c.args.Execution
		d.Denial = &budget.Denial{Reason: budget.ReasonOverrun}
		return false, nil
	case "nothing":
		d.Outcome, d.Reservation, d.Returned = budget.Released, c.args.Execution, budget.Amounts{}
		return false, nil
	case "released":
		c.released(r)
		return false, nil
	}
	return false, unexpected("release", v)
}

func (c *releaseCall) released(r Record) {
	d := &c.Decision
	d.Outcome, d.Reservation, d.Returned = budget.Released, c.args.Execution, r.released()
	d.PoolMissing = len(r.Resolution) == 5 && r.Resolution[4] == "1"
}

func (c *releaseCall) known(r Record) error {
	if fingerprint, ok := r.resolvedBy(c.keyID); ok && r.Resolution[0] == "release" {
		if fingerprint != c.args.Fingerprint {
			return budget.ErrKeyReused
		}
		c.Decision.Replayed = true
		c.released(r)
		return nil
	}
	if r.State == budget.StateDenied {
		c.Decision.Outcome, c.Decision.Reservation, c.Decision.Returned = budget.Released, c.args.Execution, budget.Amounts{}
		return nil
	}
	return r.conflict()
}
