package budget

import (
	"maps"
	"time"
)

// ChargeCall is one charge as the authority meets it. Incurred: the money is
// already gone elsewhere.
type ChargeCall struct {
	Agent                  Agent
	Execution, Fingerprint string
	Amounts                Amounts
	Path                   []Limit
	Incurred               bool
	NotAfter               time.Time
}

// Charge books in one step. What is incurred is booked whatever the limits
// say; it may pass a cap, and the limit then refuses.
func (m *Model) Charge(nowMS int64, c ChargeCall) (Decision, []Entry, error) {
	if m.fenced {
		return Decision{}, nil, ErrUnavailable
	}
	if r := m.record(nowMS, c.Execution); r != nil {
		if r.fingerprint != c.Fingerprint {
			return Decision{}, nil, ErrKeyReused
		}
		return replay(r.first), nil, nil
	}
	if m.stale(c.Path) {
		return Decision{}, nil, ErrStalePolicy
	}
	if err := unitsFit(c.Path, c.Amounts); err != nil {
		return Decision{}, nil, err
	}
	if !c.Incurred {
		if denial := m.deny(nowMS, admission{c.Agent, c.NotAfter, c.Path, c.Amounts, nil}); denial != nil {
			d := Decision{Outcome: Refused, Denial: denial}
			m.rememberDenial(nowMS, c.Execution, &modelRecord{holder: c.Agent, fingerprint: c.Fingerprint}, d)
			return d, nil, nil
		}
	}
	r := &modelRecord{
		state: StateCharged, holder: c.Agent, fingerprint: c.Fingerprint,
		amounts: maps.Clone(c.Amounts), path: limitIDs(c.Path), createdMS: nowMS,
	}
	moves := r.moves(func(mv *Move, a int64) { mv.Spent = a })
	d := Decision{Outcome: Charged, Charged: maps.Clone(c.Amounts)}
	d.PoolMissing = m.apply(moves)
	r.first = d
	r.keep(nowMS, ResolvedKept)
	m.records[c.Execution] = r
	d.Pools = m.rows(r.path)
	return d, []Entry{m.entry(nowMS, KindCharged, c.Execution, c.Agent.ID, moves)}, nil
}
