package budget

import (
	"maps"
	"time"
)

// ReserveCall is one reserve as the authority meets it.
type ReserveCall struct {
	Agent                  Agent
	Execution, Fingerprint string
	Settler                string
	Amounts                Amounts
	TTL                    time.Duration
	Path                   []Limit
	Slots                  []Slot
	NotAfter               time.Time
	DryRun                 bool
}

// Reserve holds the amounts on every limit of the path, or nothing.
func (m *Model) Reserve(nowMS int64, c ReserveCall) (Decision, []Entry, error) {
	if m.fenced {
		return Decision{}, nil, ErrUnavailable
	}
	if r := m.record(nowMS, c.Execution); r != nil && !c.DryRun {
		return m.reserveAgain(r, c.Fingerprint)
	}
	if m.stale(c.Path) {
		return Decision{}, nil, ErrStalePolicy
	}
	if err := unitsFit(c.Path, c.Amounts); err != nil {
		return Decision{}, nil, err
	}
	denial := m.deny(nowMS, admission{c.Agent, c.NotAfter, c.Path, c.Amounts, c.Slots})
	if denial != nil {
		d := Decision{Outcome: Refused, Denial: denial}
		if !c.DryRun {
			r := &modelRecord{holder: c.Agent, settler: c.Settler, fingerprint: c.Fingerprint}
			m.rememberDenial(nowMS, c.Execution, r, d)
		}
		return d, nil, nil
	}
	d := Decision{
		Outcome: Allowed, Reservation: c.Execution, Amounts: maps.Clone(c.Amounts),
		ExpiresAt: time.UnixMilli(nowMS).UTC().Add(c.TTL), ExpiresIn: c.TTL,
	}
	if c.DryRun {
		d.Pools = m.rows(limitIDs(c.Path))
		return d, nil, nil
	}
	r := &modelRecord{
		state: StateHeld, holder: c.Agent, settler: c.Settler, fingerprint: c.Fingerprint,
		amounts: maps.Clone(c.Amounts), path: limitIDs(c.Path),
		createdMS: nowMS, deadlineMS: nowMS + c.TTL.Milliseconds(),
		first: d, attempts: map[attemptKey]attempt{},
	}
	m.records[c.Execution] = r
	for _, s := range c.Slots {
		id := slotID{s.Pool, s.Pattern}
		if m.slots[id] == nil {
			m.slots[id] = map[string]int64{}
		}
		m.slots[id][c.Execution] = r.deadlineMS
		r.slots = append(r.slots, id)
	}
	moves := r.moves(func(mv *Move, a int64) { mv.Held = a })
	m.apply(moves)
	d.Pools = m.rows(r.path)
	return d, []Entry{m.entry(nowMS, KindReserved, c.Execution, c.Agent.ID, moves)}, nil
}

// reserveAgain answers a key that has a record: a tombstone refuses whatever
// comes, other content is refused, and the same content gets its first answer.
func (m *Model) reserveAgain(r *modelRecord, fingerprint string) (Decision, []Entry, error) {
	if r.state == StateTombstone {
		return Decision{Outcome: Refused, Denial: &Denial{Reason: ReasonReleased}}, nil, nil
	}
	if r.fingerprint != fingerprint {
		return Decision{}, nil, ErrKeyReused
	}
	return replay(r.first), nil, nil
}

// rememberDenial keeps a denial for an hour, so that a delayed duplicate cannot
// succeed after its caller gave up. A missing limit is a fault, not a verdict.
func (m *Model) rememberDenial(nowMS int64, execution string, r *modelRecord, d Decision) {
	if d.Denial.Reason == ReasonPoolMissing {
		return
	}
	r.state, r.createdMS, r.first = StateDenied, nowMS, d
	r.keep(nowMS, DenialKept)
	m.records[execution] = r
}

// moves makes one move per limit of the reservation from its amount there.
func (r *modelRecord) moves(set func(mv *Move, amount int64)) []Move {
	moves := make([]Move, len(r.path))
	for i, id := range r.path {
		moves[i].LimitID = id
		set(&moves[i], r.amounts[id.Unit])
	}
	return moves
}
