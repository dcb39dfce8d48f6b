package report

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/google/uuid"

	"tallystick/internal/money"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
)

// Kinds that correct what was spent.
const (
	kindCorrected = budget.Kind(events.KindCorrected)
	kindRefunded  = budget.Kind(events.KindRefunded)
	kindDisputed  = budget.Kind(events.KindDisputed)
)

const moneyUnit = money.Microcents

// Aggregator adds up one org's entries, which come in the order of its chain
// and from its beginning: what is held at the end began at some time.
type Aggregator struct {
	org   string
	span  Range
	asOf  AsOf
	count int64

	days   calendar
	dayRow []int32
	tables map[string]*table
	total  *table
	series series
	limits map[budget.LimitID]*limitLine
	live   map[uuid.UUID]holder
	paths  paths
	names  map[string]string // of agents, by id
	deltas []delta           // of the entry under way
	drift  Drift
}

// holder is whose an outstanding reservation is, as indices of rows: there may
// be millions.
type holder struct{ agent, principal, target, path int32 }

// New starts a report of an org.
func New(org string, span Range) (*Aggregator, error) {
	if err := span.Check(); err != nil {
		return nil, err
	}
	a := &Aggregator{
		org: org, span: span, days: days(span.From, span.To, span.Zone),
		tables: map[string]*table{}, total: newTable(1), series: newSeries(span),
		limits: map[budget.LimitID]*limitLine{}, live: map[uuid.UUID]holder{}, names: map[string]string{}, paths: newPaths(),
	}
	for _, d := range Dimensions() {
		a.tables[d] = newTable(RowsMax)
	}
	a.total.row("")
	a.tables[ByDay] = newTable(a.days.steps() + 1)
	a.dayRow = append(a.dayRow, a.tables[ByDay].row(Earlier))
	for i := range a.days.steps() {
		a.dayRow = append(a.dayRow, a.tables[ByDay].row(a.days.edges[i].In(span.Zone).Format(time.DateOnly)))
	}
	a.drift.Since, a.drift.Points = stamp(span.From), []DriftPoint{}
	return a, nil
}

// Add counts an entry, unless it is as late as the range's end.
func (a *Aggregator) Add(e *budget.Entry, place AsOf) {
	if !e.At.Before(a.span.To) {
		return
	}
	a.asOf = place
	if e.Kind == budget.KindAgentRegistered {
		a.name(e)
	}
	inRange := !e.At.Before(a.span.From)
	if inRange {
		a.count++
	}
	h := a.holder(e)
	a.deltas = once(e.Moves, a.deltas)
	if e.Kind == budget.KindOverrunRefused {
		a.deltas = refused(e, a.deltas)
	}
	if e.Kind == kindDisputed && len(e.Moves) == 0 {
		a.deltas = claimed(e, a.deltas)
	}
	step := a.series.calendar.at(e.At)
	a.book(e, h, inRange)
	a.bookPools(e, h, inRange)
	a.series.add(step, e.Kind, a.deltas)
	for i := range e.Moves {
		a.limit(e.Moves, i).add(step, e.Moves[i])
	}
}

// book adds the entry's deltas to the totals and to every dimension but pools.
func (a *Aggregator) book(e *budget.Entry, h holder, inRange bool) {
	if len(a.deltas) == 0 {
		return
	}
	day := a.dayRow[a.days.at(e.At)+1]
	kind := a.tables[ByKind].row(string(e.Kind))
	for _, d := range a.deltas {
		a.total.book(1, e.Kind, d, inRange)
		a.tables[ByAgent].book(h.agent, e.Kind, d, inRange)
		a.tables[ByPrincipal].book(h.principal, e.Kind, d, inRange)
		a.tables[ByTarget].book(h.target, e.Kind, d, inRange)
		a.tables[ByKind].book(kind, e.Kind, d, inRange)
		a.tables[ByDay].book(day, e.Kind, d, inRange)
	}
}

// bookPools adds to each pool what was moved on it. A refused overrun moves
// nothing: it concerns every pool of its reservation.
func (a *Aggregator) bookPools(e *budget.Entry, h holder, inRange bool) {
	pools := a.tables[ByPool]
	if e.Kind == budget.KindOverrunRefused {
		for _, pool := range a.paths.pools(h.path) {
			for _, d := range a.deltas {
				pools.book(pools.row(pool), e.Kind, d, inRange)
			}
		}
		return
	}
	var scratch [8]delta
	for i := range e.Moves {
		pool := e.Moves[i].Pool
		if slices.ContainsFunc(e.Moves[:i], func(m budget.Move) bool { return m.Pool == pool }) {
			continue
		}
		row := pools.row(pool)
		for _, d := range ofPool(e.Moves[i:], pool, scratch[:0]) {
			pools.book(row, e.Kind, d, inRange)
		}
	}
}

// holder tells whose an entry is. A settle says neither for what target nor,
// where somebody else settled, for whom: its reservation did.
func (a *Aggregator) holder(e *budget.Entry) holder {
	id, err := uuid.Parse(e.Execution)
	if err == nil {
		if h, ok := a.live[id]; ok {
			if resolved(e) {
				delete(a.live, id)
			}
			return h
		}
	}
	h := holder{
		agent: a.tables[ByAgent].row(e.Agent), principal: a.tables[ByPrincipal].row(e.OnBehalfOf),
		target: a.tables[ByTarget].row(target(e)), path: -1,
	}
	if err == nil && e.Kind == budget.KindReserved {
		h.path = a.paths.of(e.Moves)
		a.live[id] = h
	}
	return h
}

// resolved reports whether nothing of a reservation is outstanding any more.
func resolved(e *budget.Entry) bool {
	switch e.Kind {
	case budget.KindSettled, budget.KindReleased, budget.KindLapsed, budget.KindLateSettled:
		return true
	case budget.KindExpired:
		return !slices.ContainsFunc(e.Moves, func(m budget.Move) bool { return m.Withheld > 0 })
	}
	return false
}

func target(e *budget.Entry) string {
	if e.Kind != budget.KindReserved && e.Kind != budget.KindCharged || len(e.Detail) == 0 {
		return ""
	}
	var detail struct{ Target string }
	if json.Unmarshal(e.Detail, &detail) != nil {
		return ""
	}
	return detail.Target
}

// refused gives what a refused overrun was above, unit by unit.
func refused(e *budget.Entry, into []delta) []delta {
	var detail struct{ Booked, Actual, Authorised budget.Amounts }
	if json.Unmarshal(e.Detail, &detail) != nil {
		return into
	}
	if detail.Booked == nil {
		detail.Booked = detail.Actual
	}
	for unit, n := range detail.Booked {
		if n > detail.Authorised[unit] {
			into = append(into, delta{unit: unit, refused: n - detail.Authorised[unit]})
		}
	}
	return into
}

// claimed gives what a dispute is about, unit by unit. It concerns no pool as
// long as it moves nothing.
func claimed(e *budget.Entry, into []delta) []delta {
	var detail struct{ Amounts budget.Amounts }
	if json.Unmarshal(e.Detail, &detail) != nil {
		return into
	}
	for unit, n := range detail.Amounts {
		into = append(into, delta{unit: unit, claimed: n})
	}
	return into
}

func (a *Aggregator) name(e *budget.Entry) {
	var detail struct{ Name string }
	if len(a.names) < RowsMax && json.Unmarshal(e.Detail, &detail) == nil && detail.Name != "" {
		a.names[e.Agent] = detail.Name
	}
}

// Outstanding is how many reservations the aggregator remembers.
func (a *Aggregator) Outstanding() int { return len(a.live) }
