package budget

import (
	"maps"
	"time"
)

// ExtendCall is one extend as the authority meets it.
type ExtendCall struct {
	Caller                      Agent
	Operator                    bool
	Execution, Key, Fingerprint string
	TTL                         time.Duration
	Add                         Amounts
	NotAfter                    time.Time
}

// Extend moves the deadline out, adds to the amounts, or both.
func (m *Model) Extend(nowMS int64, c ExtendCall) (Decision, []Entry, error) {
	if m.fenced {
		return Decision{}, nil, ErrUnavailable
	}
	r := m.record(nowMS, c.Execution)
	if r == nil || !r.mayResolve(c.Caller, c.Operator) {
		return Decision{}, nil, ErrNotFound
	}
	key := attemptKey{verbExtend, callerName(c.Caller, c.Operator), c.Key}
	if d, err, done := r.repeated(key, c.Fingerprint); done {
		return d, nil, err
	}
	if err := r.resolvable(); err != nil {
		return Decision{}, nil, err
	}
	if r.state != StateHeld || nowMS >= r.deadlineMS {
		return Decision{}, nil, ErrAlreadyExpired
	}
	if err := unitsKnown(r.amounts, c.Add); err != nil {
		return Decision{}, nil, err
	}
	adds := len(c.Add) > 0
	if adds && len(r.attempts) >= attemptsMax {
		return Decision{}, nil, ErrAttempts
	}
	if denial := m.denyExtend(nowMS, r, c); denial != nil {
		d := Decision{Outcome: Refused, Denial: denial}
		if adds && denial.Reason != ReasonPoolMissing {
			r.attempts[key] = attempt{c.Fingerprint, d}
		}
		return d, nil, nil
	}
	if c.TTL > 0 {
		latest := r.createdMS + ExtendMax.Milliseconds()
		r.deadlineMS = max(r.deadlineMS, min(nowMS+c.TTL.Milliseconds(), latest))
	}
	for _, s := range r.slots {
		m.slots[s][c.Execution] = r.deadlineMS
	}
	moves := r.moves(func(mv *Move, _ int64) { mv.Held = c.Add[mv.Unit] })
	m.apply(moves)
	r.amounts = maps.Clone(r.amounts)
	for unit, n := range c.Add {
		r.amounts[unit] += n
	}
	d := Decision{
		Outcome: Allowed, Reservation: c.Execution, Amounts: maps.Clone(r.amounts),
		ExpiresAt: time.UnixMilli(r.deadlineMS).UTC(),
		ExpiresIn: time.Duration(r.deadlineMS-nowMS) * time.Millisecond,
	}
	d.Pools = m.rows(r.path)
	if adds {
		r.attempts[key] = attempt{c.Fingerprint, d}
	}
	return d, []Entry{m.entry(nowMS, KindExtended, c.Execution, r.holder.ID, moves)}, nil
}

// denyExtend: an added amount passes every check of a reserve, the holder's
// and the caller's revocation included; a heartbeat only has to be in time.
func (m *Model) denyExtend(nowMS int64, r *modelRecord, c ExtendCall) *Denial {
	a := admission{agent: r.holder, notAfter: c.NotAfter}
	if len(c.Add) == 0 {
		a.agent = Agent{}
		return m.deny(nowMS, a)
	}
	if !c.Operator && !m.isRevoked(nowMS, r.holder) {
		a.agent = c.Caller
	}
	a.path, a.amounts = asPath(r.path), c.Add
	return m.deny(nowMS, a)
}
