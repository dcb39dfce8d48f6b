package budget

import (
	"slices"
	"time"
)

// admission is what reserve, charge and an added amount ask of their limits.
type admission struct {
	agent    Agent
	notAfter time.Time
	path     []Limit
	amounts  Amounts
	slots    []Slot
}

// deny finds the first denial: reason by reason in precedence order, and
// within one reason along the path.
func (m *Model) deny(nowMS int64, a admission) *Denial {
	if !a.notAfter.IsZero() && nowMS > a.notAfter.UnixMilli() {
		return &Denial{Reason: ReasonDeadlinePassed}
	}
	if m.isRevoked(nowMS, a.agent) {
		return &Denial{Reason: ReasonRevoked}
	}
	checks := []struct {
		reason Reason
		hit    func(Limit, *modelLimit) bool
	}{
		{ReasonFrozen, func(_ Limit, l *modelLimit) bool { return l != nil && l.Frozen }},
		{ReasonPoolMissing, func(_ Limit, l *modelLimit) bool { return l == nil }},
		{ReasonPeriodClosed, func(_ Limit, l *modelLimit) bool { return l.Closed }},
		{ReasonDebt, func(_ Limit, l *modelLimit) bool { return l.Spent > l.Counters.Cap+l.Adj }},
	}
	for _, c := range checks {
		for _, want := range a.path {
			if l := m.limit(want.LimitID); c.hit(want, l) {
				return m.denial(c.reason, want, a.amounts)
			}
		}
	}
	for _, s := range a.slots {
		if n := m.Holders(nowMS, s.Pool, s.Pattern); n >= s.Max {
			return &Denial{Reason: ReasonConcurrencyExceeded, Limit: LimitID{Pool: s.Pool}, Holders: n}
		}
	}
	for _, want := range a.path {
		if l := m.limit(want.LimitID); a.amounts[want.Unit] > 0 && a.amounts[want.Unit] > l.room(want.Ceiling) {
			return m.denial(ReasonBudgetExceeded, want, a.amounts)
		}
	}
	return nil
}

// room is what a limit can still take; a ceiling only ever tightens it.
func (l *modelLimit) room(ceiling int64) int64 {
	room := l.Remaining()
	if ceiling > 0 {
		room = min(room, ceiling-l.Held-l.Spent-l.Withheld)
	}
	return room
}

func (m *Model) denial(reason Reason, want Limit, amounts Amounts) *Denial {
	d := &Denial{Reason: reason, Limit: want.LimitID}
	if l := m.limit(want.LimitID); l != nil {
		d.HasFigures = true
		d.Requested = amounts[want.Unit]
		d.Counters = l.Counters
	}
	return d
}

// stale is true where a path was built from another revision of its pools.
func (m *Model) stale(path []Limit) bool {
	return slices.ContainsFunc(path, func(want Limit) bool {
		l := m.limit(want.LimitID)
		return l != nil && l.Rev != want.Rev
	})
}

// unitsFit: every limit's unit is in the amounts, every amount's unit on the
// path. The first offender in path order, then in byte order, is named.
func unitsFit(path []Limit, amounts Amounts) error {
	on := map[string]bool{}
	for _, want := range path {
		on[want.Unit] = true
		if _, ok := amounts[want.Unit]; !ok {
			return &UnitError{Unit: want.Unit, Missing: true}
		}
	}
	return unitsKnown(on, amounts)
}

func unitsKnown[V any](known map[string]V, amounts Amounts) error {
	for _, unit := range sortedUnits(amounts) {
		if _, ok := known[unit]; !ok {
			return &UnitError{Unit: unit}
		}
	}
	return nil
}

func sortedUnits(a Amounts) []string {
	units := make([]string, 0, len(a))
	for unit := range a {
		units = append(units, unit)
	}
	slices.Sort(units)
	return units
}

func limitIDs(path []Limit) []LimitID {
	ids := make([]LimitID, len(path))
	for i, want := range path {
		ids[i] = want.LimitID
	}
	return ids
}

func asPath(ids []LimitID) []Limit {
	path := make([]Limit, len(ids))
	for i, id := range ids {
		path[i] = Limit{LimitID: id}
	}
	return path
}
