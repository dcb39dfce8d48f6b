package report

import (
	"cmp"
	"maps"
	"slices"

	"tallystick/pkg/budget"
)

// limitsShown bounds the limits of a unit whose figures over time are written.
const limitsShown = 10

// series are figures over time while they are added up.
type series struct {
	step     string
	calendar calendar
	units    map[string]*UnitSeries
	events   []EventPoint
}

func newSeries(span Range) series {
	s := series{step: StepDay, calendar: days(span.From, span.To, span.Zone), units: map[string]*UnitSeries{}}
	if span.To.Sub(span.From) <= hourly {
		s.step, s.calendar = StepHour, hours(span.From, span.To)
	}
	return s
}

// add books an entry in a step; -1 is before the range.
func (s *series) add(step int, kind budget.Kind, deltas []delta) {
	over := false
	for _, d := range deltas {
		free := -(d.Held + d.Withheld)
		over = over || free > 0 && d.Spent > free
		u := s.units[d.unit]
		if u == nil {
			u = &UnitSeries{Unit: d.unit, Points: []UnitPoint{}}
			s.units[d.unit] = u
		}
		u.add(step, d)
	}
	if step >= 0 {
		s.event(step, kind, over)
	}
}

func (u *UnitSeries) add(step int, d delta) {
	n := len(u.Points)
	if step < 0 {
		d.Spent = 0
		if n == 0 {
			u.OpenHeld += d.Held
			u.OpenWithheld += d.Withheld
			return
		}
	}
	if d.Held == 0 && d.Spent == 0 && d.Withheld == 0 {
		return
	}
	p := UnitPoint{At: step, Held: u.OpenHeld, Withheld: u.OpenWithheld}
	if n > 0 {
		p.Held, p.Withheld = u.Points[n-1].Held, u.Points[n-1].Withheld
	}
	// A clock that went back books in the step it had reached.
	if n == 0 || u.Points[n-1].At < step {
		u.Points = append(u.Points, p)
		n++
	}
	last := &u.Points[n-1]
	last.Spent += d.Spent
	last.Held += d.Held
	last.Withheld += d.Withheld
}

func (s *series) event(step int, kind budget.Kind, over bool) {
	p := EventPoint{At: step}
	switch kind {
	case budget.KindOverrunRefused:
		p.OverrunRefused = 1
	case budget.KindLateSettled:
		p.LateSettled = 1
	case budget.KindExpired:
		p.Expired = 1
	}
	if over {
		p.Overruns = 1
	}
	if p == (EventPoint{At: step}) {
		return
	}
	n := len(s.events)
	if n == 0 || s.events[n-1].At < step {
		s.events = append(s.events, EventPoint{At: step})
		n++
	}
	last := &s.events[n-1]
	last.Overruns += p.Overruns
	last.OverrunRefused += p.OverrunRefused
	last.LateSettled += p.LateSettled
	last.Expired += p.Expired
}

// limitLine is one limit while it is added up.
type limitLine struct {
	now, before budget.Counters
	below       bool // another pool stands above this one
	moved       bool // it had money, not only a cap
	points      []LimitPoint
}

// limit gives the line of a move. An entry books from the pool that was asked
// for up to the topmost.
func (a *Aggregator) limit(moves []budget.Move, i int) *limitLine {
	l := a.limits[moves[i].LimitID]
	if l == nil {
		l = &limitLine{}
		a.limits[moves[i].LimitID] = l
	}
	if !l.below {
		for _, m := range moves[i+1:] {
			l.below = l.below || m.Unit == moves[i].Unit && m.Pool != moves[i].Pool
		}
	}
	return l
}

func (l *limitLine) add(step int, m budget.Move) {
	l.now = l.now.Plus(m)
	l.moved = l.moved || m.Held != 0 || m.Spent != 0 || m.Withheld != 0
	if step < 0 {
		l.before = l.now
	}
	p := LimitPoint{At: step, Cap: capOf(l.now), Spent: l.now.Spent, Held: l.now.Held, Withheld: l.now.Withheld}
	if n := len(l.points); n > 0 && l.points[n-1].At >= step {
		p.At = l.points[n-1].At
		l.points[n-1] = p
		return
	}
	l.points = append(l.points, p)
}

// capOf is what a limit is bounded by; one without a cap stays without.
func capOf(c budget.Counters) int64 {
	if c.Cap == budget.MaxAmount {
		return c.Cap
	}
	return c.Cap + c.Adj
}

// finish gives the series of the org and of the busiest topmost limits.
func (s *series) finish(limits map[budget.LimitID]*limitLine) Series {
	out := Series{Step: s.step, Org: []UnitSeries{}, Limits: []LimitSeries{}, Events: s.events}
	if out.Events == nil {
		out.Events = []EventPoint{}
	}
	for _, t := range s.calendar.edges {
		out.Edges = append(out.Edges, stamp(t))
	}
	for _, unit := range slices.SortedFunc(maps.Keys(s.units), unitOrder) {
		if u := s.units[unit]; len(u.Points) > 0 || u.OpenHeld != 0 || u.OpenWithheld != 0 {
			out.Org = append(out.Org, *u)
		}
		out.Limits = append(out.Limits, busiest(limits, unit)...)
	}
	return out
}

func busiest(limits map[budget.LimitID]*limitLine, unit string) []LimitSeries {
	var ids []budget.LimitID
	for id, l := range limits {
		if id.Unit == unit && !l.below && l.moved {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b budget.LimitID) int {
		return cmp.Or(cmp.Compare(limits[b].now.Spent, limits[a].now.Spent), cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Period, b.Period))
	})
	var out []LimitSeries
	for _, id := range ids[:min(len(ids), limitsShown)] {
		out = append(out, LimitSeries{Pool: id.Pool, Unit: id.Unit, Period: id.Period, Points: limits[id].points})
	}
	return out
}
