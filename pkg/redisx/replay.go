package redisx

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"tallystick/pkg/budget"
)

// figures reads cap, adj, held, spent, withheld; each is "-" where the limit's
// hash is gone.
func figures(words []string) (budget.Counters, error) {
	var n [5]int64
	for i := range n {
		if words[i] == "-" {
			continue
		}
		v, err := strconv.ParseInt(words[i], 10, 64)
		if err != nil {
			return budget.Counters{}, fmt.Errorf("redisx: figure %q", words[i])
		}
		n[i] = v
	}
	return budget.Counters{Cap: n[0], Adj: n[1], Held: n[2], Spent: n[3], Withheld: n[4]}, nil
}

// denial reads reason, index, detail and the refusing limit's figures, as
// scripts return and records keep them.
func denial(words []string, limits []budget.LimitID, slots []budget.Slot, amounts budget.Amounts) (*budget.Denial, error) {
	if len(words) < 4 {
		return nil, fmt.Errorf("redisx: denial of %d words", len(words))
	}
	index, err := strconv.Atoi(words[1])
	if err != nil {
		return nil, fmt.Errorf("redisx: denial at %q", words[1])
	}
	d := &budget.Denial{Reason: budget.Reason(words[0])}
	switch {
	case d.Reason == budget.ReasonConcurrencyExceeded && index >= 1 && index <= len(slots):
		d.Limit.Pool = slots[index-1].Pool
		err = concurrency(d, words[2])
	case index >= 1 && index <= len(limits):
		d.Limit = limits[index-1]
		d.Requested = amounts[d.Limit.Unit]
		if row := strings.Fields(words[3]); len(row) == 5 && row[0] != "-" {
			d.HasFigures = true
			d.Counters, err = figures(row)
		}
	}
	return d, err
}

// concurrency reads how many hold a slot, when the first of them frees it at
// the latest, and when that was.
func concurrency(d *budget.Denial, text string) error {
	words := strings.Fields(text)
	if len(words) != 3 {
		return fmt.Errorf("redisx: slot %q", text)
	}
	var n [3]int64
	for i, word := range words {
		v, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return fmt.Errorf("redisx: slot %q", text)
		}
		n[i] = v
	}
	d.Holders, d.RetryAfter = n[0], time.Duration(max(1, n[1]-n[2]))*time.Millisecond
	return nil
}

// replay turns a record that was found into the first answer again.
func (r Record) replay(execution string) (budget.Decision, error) {
	d := budget.Decision{Replayed: true}
	switch r.State {
	case budget.StateTombstone:
		d.Outcome, d.Denial = budget.Refused, &budget.Denial{Reason: budget.ReasonReleased}
		return d, nil
	case budget.StateDenied:
		why, err := denial(r.Resolution, r.Limits, r.Slots, r.Amounts)
		d.Outcome, d.Denial = budget.Refused, why
		return d, err
	case budget.StateCharged:
		d.Outcome, d.Charged = budget.Charged, r.Amounts
		d.PoolMissing = len(r.Resolution) == 3 && r.Resolution[2] == "1"
		return d, nil
	}
	d.Outcome, d.Reservation = budget.Allowed, execution
	d.Amounts, d.ExpiresAt = r.firstAmounts(), r.firstDeadline()
	return d, nil
}

// firstDeadline is the deadline the reserve gave, before any extend.
func (r Record) firstDeadline() time.Time {
	return r.CreatedAt.Truncate(time.Millisecond).Add(time.Duration(r.Extra.TTLMS) * time.Millisecond)
}

// firstAmounts are what the reserve took, before any extend added to it: the
// first allowed extend remembers what it found.
func (r Record) firstAmounts() budget.Amounts {
	for _, a := range r.Attempts {
		if a.Verb == "extend" && len(a.Words) == 4 && a.Words[0] == "allowed" {
			if first, err := parseAmounts(a.Words[3]); err == nil {
				return first
			}
		}
	}
	return r.Amounts
}

// attempt finds a remembered attempt by key.
func (r Record) attempt(id string) (Attempt, bool) {
	for _, a := range r.Attempts {
		if a.KeyID == id {
			return a, true
		}
	}
	return Attempt{}, false
}

// resolvedBy reports whether this key has resolved the record, and its
// request's fingerprint.
func (r Record) resolvedBy(id string) (fingerprint string, ok bool) {
	if len(r.Resolution) >= 3 && (r.Resolution[0] == "settle" || r.Resolution[0] == "release") && r.Resolution[1] == id {
		return r.Resolution[2], true
	}
	return "", false
}

// conflict is the error of a verb whose reservation another key has resolved.
func (r Record) conflict() error {
	switch r.State {
	case budget.StateSettled, budget.StateLateSettled:
		return budget.ErrAlreadySettled
	case budget.StateReleased, budget.StateTombstone:
		return budget.ErrAlreadyReleased
	case budget.StateDenied:
		return budget.ErrNotFound
	}
	return budget.ErrAlreadyExpired
}

// Replay adds the look-up of what was answered under a key before, for a
// request that could not be executed today: a pool may have got a limit since.
// Where there is no answer yet, otherwise is the error.
func (b *Batch) Replay(org, execution, fingerprint string, otherwise error) *Pending {
	p, found := &Pending{}, b.Record(org, execution)
	b.after = append(b.after, func() {
		switch {
		case errors.Is(found.Err, budget.ErrNotFound):
			p.Err = otherwise
		case found.Err != nil:
			p.Err = found.Err
		case found.Record.State != budget.StateTombstone && found.Record.Fingerprint != fingerprint:
			p.Err = budget.ErrKeyReused
		default:
			p.Decision, p.Err = found.Record.replay(execution)
		}
	})
	return p
}
