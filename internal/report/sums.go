package report

import (
	"tallystick/pkg/budget"
)

// delta is what one entry did in one unit.
type delta struct {
	unit string
	budget.Counters
	refused int64 // of a refused overrun, which moves nothing
	claimed int64 // of a dispute, which moves nothing
}

// add books an entry's delta.
func (s *Sums) add(kind budget.Kind, d delta) {
	s.Entries++
	s.Reserved += max(0, d.Held)
	s.Spent += d.Spent
	s.Adjusted += d.Adj
	if d.Cap != 0 {
		s.CapChanges++
	}
	switch kind {
	case budget.KindSettled, budget.KindReleased, budget.KindExpired, budget.KindLapsed, budget.KindLateSettled:
		s.resolve(kind, d)
	case budget.KindOverrunRefused:
		s.Refusals++
		s.OverrunRefused += d.refused
	case kindCorrected, kindRefunded, kindDisputed:
		s.correct(kind, d)
	}
}

// resolve tells what became of money that was set aside. A late settle after
// the money had gone back sets nothing free, so it overruns nothing.
func (s *Sums) resolve(kind budget.Kind, d delta) {
	free := -(d.Held + d.Withheld)
	if back := free - d.Spent; back > 0 {
		s.Returned += back
	} else if back < 0 && free > 0 {
		s.Overruns++
		s.Overrun -= back
	}
	switch kind {
	case budget.KindExpired:
		s.Expiries++
		s.Expired -= d.Held
	case budget.KindLapsed:
		s.Lapses++
		s.Lapsed -= d.Withheld
	case budget.KindLateSettled:
		s.LateSettles++
		s.LateSettled += d.Spent
	}
}

func (s *Sums) correct(kind budget.Kind, d delta) {
	s.Corrections++
	switch kind {
	case kindCorrected:
		s.Corrected += d.Spent
	case kindRefunded:
		s.Refunded += d.Spent
	case kindDisputed:
		s.Disputed += d.Spent - d.claimed
	}
}

// once is what an entry did in each unit, counted once however many limits of
// a tree book it: the largest move up and the largest move down of each figure.
// Limits agree but for the money one of them withholds and another gives back,
// and a correction that moves a cost from pool to pool adds up to nothing.
func once(moves []budget.Move, into []delta) []delta {
	into = into[:0]
	for i := range moves {
		unit := moves[i].Unit
		if seen(into, unit) {
			continue
		}
		var up, down budget.Counters
		for _, m := range moves[i:] {
			if m.Unit == unit {
				widen(&up, &down, m)
			}
		}
		into = append(into, delta{unit: unit, Counters: plus(up, down)})
	}
	return into
}

func seen(deltas []delta, unit string) bool {
	for i := range deltas {
		if deltas[i].unit == unit {
			return true
		}
	}
	return false
}

func widen(up, down *budget.Counters, m budget.Move) {
	up.Held, down.Held = max(up.Held, m.Held), min(down.Held, m.Held)
	up.Spent, down.Spent = max(up.Spent, m.Spent), min(down.Spent, m.Spent)
	up.Withheld, down.Withheld = max(up.Withheld, m.Withheld), min(down.Withheld, m.Withheld)
	up.Cap, down.Cap = max(up.Cap, m.Cap), min(down.Cap, m.Cap)
	up.Adj, down.Adj = max(up.Adj, m.Adj), min(down.Adj, m.Adj)
}

func plus(a, b budget.Counters) budget.Counters {
	return budget.Counters{Cap: a.Cap + b.Cap, Adj: a.Adj + b.Adj, Held: a.Held + b.Held, Spent: a.Spent + b.Spent, Withheld: a.Withheld + b.Withheld}
}
