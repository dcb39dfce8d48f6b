package budget

import (
	"maps"
)

// SettleCall is one settle as the authority meets it. Actual nil means that
// the caller did not know; Dispatched nil that it did not say.
type SettleCall struct {
	Caller                      Agent
	Operator                    bool
	Execution, Key, Fingerprint string
	Actual                      Amounts
	Status                      string
	Dispatched                  *bool
	Final                       bool
}

// StatusFailure is the settle status that can return everything.
const StatusFailure = "failure"

// Settle books what was really spent and gives the rest back.
func (m *Model) Settle(nowMS int64, c SettleCall) (Decision, []Entry, error) {
	if m.fenced {
		return Decision{}, nil, ErrUnavailable
	}
	r := m.record(nowMS, c.Execution)
	if r == nil || !r.mayResolve(c.Caller, c.Operator) {
		return Decision{}, nil, ErrNotFound
	}
	key := attemptKey{verbSettle, callerName(c.Caller, c.Operator), c.Key}
	if d, err, done := r.repeated(key, c.Fingerprint); done {
		return d, nil, err
	}
	if err := r.resolvable(); err != nil {
		return Decision{}, nil, err
	}
	if err := unitsKnown(r.amounts, c.Actual); err != nil {
		return Decision{}, nil, err
	}
	booked, unknown := r.booked(c)
	if r.state != StateHeld {
		return m.lateSettle(nowMS, r, c, key, booked, unknown)
	}
	if eps, ok := m.overrunFits(r, booked); !ok {
		return m.refuseOverrun(nowMS, r, c, key, booked, eps)
	}
	d := r.settled(Settled, c.Execution, booked, unknown)
	moves := r.moves(func(mv *Move, a int64) { mv.Held, mv.Spent = -a, booked[mv.Unit] })
	d.PoolMissing = m.apply(moves)
	m.resolve(nowMS, c.Execution, r, StateSettled, key, c.Fingerprint, d)
	return d, []Entry{m.entry(nowMS, KindSettled, c.Execution, r.holder.ID, moves)}, nil
}

// booked is the table of the contract: what each combination of status,
// dispatched, final and actual charges, and whether the cost was guessed.
func (r *modelRecord) booked(c SettleCall) (booked Amounts, costUnknown bool) {
	booked = Amounts{}
	if c.Actual == nil {
		if c.Status == StatusFailure && c.Dispatched != nil && !*c.Dispatched {
			for unit := range r.amounts {
				booked[unit] = 0
			}
			return booked, false
		}
		return maps.Clone(r.amounts), true
	}
	for unit, reserved := range r.amounts {
		actual, given := c.Actual[unit]
		switch {
		case !given:
			booked[unit], costUnknown = reserved, true
		case !c.Final:
			booked[unit], costUnknown = max(actual, reserved), true
		default:
			booked[unit] = actual
		}
	}
	return booked, costUnknown || !c.Final
}

// settled shapes the answer of a settle that books: charged and returned are
// what this settle moves, beside what expiry has charged or returned already.
func (r *modelRecord) settled(o Outcome, execution string, booked Amounts, costUnknown bool) Decision {
	d := Decision{
		Outcome: o, Reservation: execution, CostUnknown: costUnknown,
		Charged: Amounts{}, Returned: Amounts{}, Overrun: Amounts{},
	}
	for unit, reserved := range r.amounts {
		atHand := reserved
		switch {
		case r.precharged != nil:
			atHand = r.precharged[unit]
		case r.state == StateLapsed:
			atHand = 0
		}
		d.Charged[unit] = max(0, booked[unit]-r.precharged[unit])
		if back := atHand - booked[unit]; back > 0 {
			d.Returned[unit] = back
		}
		if over := booked[unit] - reserved; over > 0 {
			d.Overrun[unit] = over
		}
	}
	return d
}

// overrunFits asks each limit whose unit is overrun: within epsilon and cap,
// or charged by policy. All must accept. A limit that is gone has no say.
func (m *Model) overrunFits(r *modelRecord, booked Amounts) (epsilon Amounts, ok bool) {
	epsilon, ok = Amounts{}, true
	for _, id := range r.path {
		l := m.limit(id)
		over := booked[id.Unit] - r.amounts[id.Unit]
		if l == nil || over <= 0 {
			continue
		}
		if e, seen := epsilon[id.Unit]; !seen || l.Epsilon < e {
			epsilon[id.Unit] = l.Epsilon
		}
		within := over <= l.Epsilon && over <= l.Remaining()
		if !within && !l.ChargeOver {
			ok = false
		}
	}
	return epsilon, ok
}

func (m *Model) refuseOverrun(nowMS int64, r *modelRecord, c SettleCall, key attemptKey, booked, eps Amounts) (Decision, []Entry, error) {
	if len(r.attempts) >= attemptsMax {
		return Decision{}, nil, ErrAttempts
	}
	d := Decision{
		Outcome: Refused, Reservation: c.Execution, Denial: &Denial{Reason: ReasonOverrun},
		Authorised: maps.Clone(r.amounts), Actual: booked, Epsilon: eps,
	}
	r.lastRefused = booked
	r.attempts[key] = attempt{c.Fingerprint, d}
	return d, []Entry{m.entry(nowMS, KindOverrunRefused, c.Execution, r.holder.ID, nil)}, nil
}

// lateSettle is never denied: the money is spent, whatever the cap says now.
func (m *Model) lateSettle(nowMS int64, r *modelRecord, c SettleCall, key attemptKey, booked Amounts, unknown bool) (Decision, []Entry, error) {
	d := r.settled(LateSettled, c.Execution, booked, unknown)
	moves := r.moves(func(mv *Move, a int64) {
		mv.Spent = booked[mv.Unit] - r.precharged[mv.Unit]
		if r.withholds() {
			mv.Withheld = -a
		}
	})
	d.PoolMissing = m.apply(moves)
	m.resolve(nowMS, c.Execution, r, StateLateSettled, key, c.Fingerprint, d)
	return d, []Entry{m.entry(nowMS, KindLateSettled, c.Execution, r.holder.ID, moves)}, nil
}

// withholds is true while an expired reservation's money is kept back.
func (r *modelRecord) withholds() bool { return r.state == StateExpired && r.precharged == nil }

// repeated answers a settle, release or add whose key was seen before.
func (r *modelRecord) repeated(key attemptKey, fingerprint string) (Decision, error, bool) {
	seen, ok := r.attempts[key]
	if !ok && r.resolvedBy == key {
		seen, ok = r.resolution, true
	}
	switch {
	case !ok:
		return Decision{}, nil, false
	case seen.fingerprint != fingerprint:
		return Decision{}, ErrKeyReused, true
	default:
		return replay(seen.decision), nil, true
	}
}

// resolvable says why a record can no longer be settled.
func (r *modelRecord) resolvable() error {
	switch r.state {
	case StateHeld, StateExpired, StateLapsed:
		return nil
	case StateSettled, StateLateSettled:
		return ErrAlreadySettled
	case StateReleased, StateTombstone:
		return ErrAlreadyReleased
	default: // denied and charged records hold nothing to resolve
		return ErrNotFound
	}
}

func (m *Model) resolve(nowMS int64, execution string, r *modelRecord, to State, key attemptKey, fingerprint string, d Decision) {
	m.freeSlots(execution, r)
	r.state = to
	r.resolvedBy, r.resolution = key, attempt{fingerprint, d}
	r.keep(nowMS, ResolvedKept)
}

func callerName(caller Agent, operator bool) string {
	if operator {
		return operatorCaller
	}
	return caller.ID
}
