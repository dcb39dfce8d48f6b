package budget

import "maps"

// ReleaseCall is one release as the authority meets it. ByKey: the caller
// named its own reserve's key, so an absent record may still be on its way.
type ReleaseCall struct {
	Caller                      Agent
	Operator                    bool
	Execution, Key, Fingerprint string
	ByKey                       bool
}

// Release gives everything back.
func (m *Model) Release(nowMS int64, c ReleaseCall) (Decision, []Entry, error) {
	if m.fenced {
		return Decision{}, nil, ErrUnavailable
	}
	key := attemptKey{verbRelease, callerName(c.Caller, c.Operator), c.Key}
	nothing := Decision{Outcome: Released, Reservation: c.Execution, Returned: Amounts{}}
	r := m.record(nowMS, c.Execution)
	if r == nil {
		if !c.ByKey {
			return Decision{}, nil, ErrNotFound
		}
		r = &modelRecord{state: StateTombstone, holder: c.Caller, createdMS: nowMS}
		r.keep(nowMS, DenialKept)
		m.records[c.Execution] = r
		return nothing, nil, nil
	}
	if !r.mayResolve(c.Caller, c.Operator) || r.state == StateCharged {
		return Decision{}, nil, ErrNotFound
	}
	if r.state == StateTombstone {
		return nothing, nil, nil // whoever releases nothing twice changes nothing
	}
	if d, err, done := r.repeated(key, c.Fingerprint); done {
		return d, nil, err
	}
	switch {
	case r.state == StateDenied:
		return nothing, nil, nil
	case r.lastRefused != nil && r.live():
		// Its cost is known: giving it back would hide it.
		return Decision{
			Outcome: Refused, Reservation: c.Execution, Denial: &Denial{Reason: ReasonOverrun},
			Authorised: maps.Clone(r.amounts), Actual: r.lastRefused,
		}, nil, nil
	case r.state == StateLapsed:
		return nothing, nil, nil
	}
	if err := r.resolvable(); err != nil {
		return Decision{}, nil, err
	}
	moves := r.moves(func(mv *Move, a int64) {
		if r.withholds() {
			mv.Withheld = -a
		} else {
			mv.Held = -a
		}
	})
	d := Decision{Outcome: Released, Reservation: c.Execution, Returned: maps.Clone(r.amounts)}
	d.PoolMissing = m.apply(moves)
	m.resolve(nowMS, c.Execution, r, StateReleased, key, c.Fingerprint, d)
	return d, []Entry{m.entry(nowMS, KindReleased, c.Execution, r.holder.ID, moves)}, nil
}

// Expire moves an overdue hold into its late window, or an expired one whose
// window is over out of it. Before its time it does nothing.
func (m *Model) Expire(nowMS int64, execution string) []Entry {
	r := m.record(nowMS, execution)
	if r == nil || m.fenced || !m.due(r, nowMS) {
		return nil
	}
	if r.state == StateExpired {
		moves := r.moves(func(mv *Move, a int64) { mv.Withheld = -a })
		m.apply(moves)
		r.state = StateLapsed
		r.keep(nowMS, UnsettledKept)
		return []Entry{m.entry(nowMS, KindLapsed, execution, r.holder.ID, moves)}
	}
	m.freeSlots(execution, r)
	window := m.lateWindowMS(r)
	r.keep(nowMS, UnsettledKept)
	r.state = StateExpired
	r.lapseMS = nowMS + window
	var moves []Move
	switch {
	case r.lastRefused != nil:
		r.precharged = Amounts{}
		for unit, reserved := range r.amounts {
			r.precharged[unit] = min(reserved, r.lastRefused[unit])
		}
		moves = r.moves(func(mv *Move, a int64) { mv.Held, mv.Spent = -a, r.precharged[mv.Unit] })
	case window == 0:
		r.state = StateLapsed
		moves = r.moves(func(mv *Move, a int64) { mv.Held = -a })
	default:
		moves = r.moves(func(mv *Move, a int64) { mv.Held, mv.Withheld = -a, a })
	}
	m.apply(moves)
	return []Entry{m.entry(nowMS, KindExpired, execution, r.holder.ID, moves)}
}

// lateWindowMS is the longest window of the reservation's limits. What a
// limit that is gone said is not known: it counts with the default.
func (m *Model) lateWindowMS(r *modelRecord) int64 {
	window := int64(0)
	for _, id := range r.path {
		if l := m.limit(id); l != nil {
			window = max(window, l.LateWindowMS)
		} else {
			window = max(window, LateWindowDefault.Milliseconds())
		}
	}
	return window
}

// live: neither settled nor released yet.
func (r *modelRecord) live() bool { return r.state == StateHeld || r.state == StateExpired }
