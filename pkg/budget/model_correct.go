package budget

import (
	"fmt"
	"slices"
)

// CorrectCall is one correction, refund or dispute of an entry. Every limit
// moves by the amount of its unit; a dispute has none.
type CorrectCall struct {
	Agent                  Agent // of the entry that is corrected
	Execution, Fingerprint string
	Kind                   Kind
	Amounts                Amounts // with their sign
	Limits                 []LimitID
}

// Correction is what a correction did.
type Correction struct {
	Kind                  Kind
	Moves                 []Move
	PoolMissing, Replayed bool
}

// RangeError: a limit's spent would fall below 0 or pass MaxAmount.
type RangeError struct {
	Limit LimitID
	Spent int64
}

func (e *RangeError) Error() string {
	return fmt.Sprintf("out of range: pool %s has spent %d %s", e.Limit.Pool, e.Spent, e.Limit.Unit)
}

// Correct moves what was spent, once for each execution.
func (m *Model) Correct(nowMS int64, c CorrectCall) (Correction, []Entry, error) {
	if m.fenced {
		return Correction{}, nil, ErrUnavailable
	}
	if r := m.record(nowMS, c.Execution); r != nil {
		if r.fingerprint != c.Fingerprint {
			return Correction{}, nil, ErrKeyReused
		}
		done := r.corrected
		done.Replayed = true
		return done, nil, nil
	}
	var moves []Move
	for _, id := range c.Limits {
		n := c.Amounts[id.Unit]
		if l := m.limit(id); l != nil && (l.Spent+n < 0 || l.Spent+n > MaxAmount) {
			return Correction{}, nil, &RangeError{id, l.Spent}
		}
		moves = append(moves, Move{LimitID: id, Spent: n})
	}
	done := Correction{Kind: c.Kind, PoolMissing: m.apply(moves)}
	done.Moves = slices.Clone(moves)
	r := &modelRecord{state: StateCharged, holder: c.Agent, fingerprint: c.Fingerprint, createdMS: nowMS, corrected: done}
	r.keep(nowMS, ResolvedKept)
	m.records[c.Execution] = r
	return done, []Entry{m.entry(nowMS, c.Kind, c.Execution, c.Agent.ID, moves)}, nil
}
