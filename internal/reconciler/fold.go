package reconciler

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/google/uuid"

	"tallystick/internal/ledger"
	"tallystick/pkg/budget"
)

// limit is what the ledger says of one limit.
type limit struct {
	id          budget.Counter
	counters    budget.Counters
	outstanding int64
	dirty       bool // outstanding has changed since it was written to Redis
	rules       *rules
}

// rules are a limit's policy attributes, from the last policy_changed entry.
type rules struct {
	Pool         string `json:"pool"`
	Unit         string `json:"unit"`
	Period       string `json:"period"`
	Cap          int64  `json:"cap"`
	Epsilon      int64  `json:"epsilon"`
	OnOverrun    string `json:"on_overrun"`
	LateWindowMS int64  `json:"late_window_ms"`
	State        string `json:"state"`
	Rev          int64  `json:"rev"`
	Opens        int64  `json:"opens"`
	Closes       int64  `json:"closes"`
}

// path is the limits of a reservation, shared by all that have the same.
type path struct {
	org    string
	limits []*limit
	units  []string // each once, in the order of the limits
}

// holding is one outstanding reservation: there may be millions.
type holding struct {
	path  *path
	first int64    // of the path's first unit
	more  *[]int64 // of its other units; nil where there are none
}

// refusal is a settle that was refused and not yet followed by one that booked.
type refusal struct {
	org               string
	booked, uncharged budget.Amounts
}

// tally counts a cause.
type tally struct {
	count   int64
	amounts budget.Amounts
}

func (t *tally) add(amounts budget.Amounts) {
	t.count++
	if t.amounts == nil {
		t.amounts = budget.Amounts{}
	}
	for unit, n := range amounts {
		t.amounts[unit] += n
	}
}

// tallyOf is the tally of a name, made where there is none.
func tallyOf(m map[string]*tally, name string) *tally {
	if m[name] == nil {
		m[name] = &tally{}
	}
	return m[name]
}

// fold is the ledger up to a position, as counters.
type fold struct {
	after     uint64      // stream sequence of the last entry
	hash      ledger.Hash // of that entry
	positions []string    // per partition, its outbox id
	entries   int64

	limits  map[budget.Counter]*limit
	paths   map[string]*path
	live    map[uuid.UUID]holding
	refused map[uuid.UUID]refusal
	late    map[string]*tally // per org: settled after the late window
	dirty   []*limit

	principals map[principal]map[budget.LimitID]budget.Counters

	key []byte // of a path, reused
}

func newFold(partitions int) *fold {
	return &fold{
		positions: make([]string, partitions), limits: map[budget.Counter]*limit{}, paths: map[string]*path{},
		live: map[uuid.UUID]holding{}, refused: map[uuid.UUID]refusal{}, late: map[string]*tally{},
		principals: map[principal]map[budget.LimitID]budget.Counters{},
	}
}

// apply adds an entry. Moves marked missing count too: they are due, and the
// limit that could not take them is rebuilt with them.
func (f *fold) apply(e *budget.Entry) {
	f.entries++
	if e.Partition < len(f.positions) && ledger.CompareIDs(f.positions[e.Partition], e.OutboxID) < 0 {
		f.positions[e.Partition] = e.OutboxID
	}
	for _, m := range e.Moves {
		l := f.limit(budget.Counter{Org: e.Org, LimitID: m.LimitID})
		l.counters = l.counters.Plus(m)
	}
	f.attribute(e)
	switch e.Kind {
	case budget.KindPolicyChanged:
		f.learn(e)
		return
	case budget.KindAgentRegistered, budget.KindAgentRevoked, budget.KindAdministered, budget.KindCharged, budget.KindDenied, budget.KindGap,
		budget.KindRefunded, budget.KindDisputed:
		return
	case budget.KindCorrected:
		f.undone(e)
		return
	}
	execution, err := uuid.Parse(e.Execution)
	if err != nil {
		return
	}
	switch e.Kind {
	case budget.KindReserved:
		f.hold(execution, e)
	case budget.KindExtended:
		f.add(execution, e)
	case budget.KindExpired:
		f.expire(execution, e)
	case budget.KindOverrunRefused:
		f.refuse(execution, e)
	case budget.KindSettled, budget.KindReleased, budget.KindLapsed, budget.KindLateSettled:
		f.resolve(execution, e)
	}
}

func (f *fold) limit(id budget.Counter) *limit {
	l := f.limits[id]
	if l == nil {
		l = &limit{id: id}
		f.limits[id] = l
	}
	return l
}

func (f *fold) learn(e *budget.Entry) {
	var detail struct {
		Limits []rules `json:"limits"`
	}
	if json.Unmarshal(e.Detail, &detail) != nil {
		return
	}
	for i := range detail.Limits {
		r := &detail.Limits[i]
		f.limit(budget.Counter{Org: e.Org, LimitID: budget.LimitID{Pool: r.Pool, Unit: r.Unit, Period: r.Period}}).rules = r
	}
}

func (f *fold) hold(execution uuid.UUID, e *budget.Entry) {
	if len(e.Moves) == 0 {
		return
	}
	p := f.path(e)
	h := p.holding()
	h.take(e.Moves)
	f.drop(execution) // a reserve that Redis lost and took again is one reservation
	f.live[execution] = h
	f.count(p, +1)
}

func (p *path) holding() holding {
	h := holding{path: p}
	if len(p.units) > 1 {
		h.more = new([]int64)
		*h.more = make([]int64, len(p.units)-1)
	}
	return h
}

// take adds what an entry holds, once per unit: each limit of a unit holds it.
func (h *holding) take(moves []budget.Move) {
	for i, unit := range h.path.units {
		for _, m := range moves {
			if m.Unit != unit {
				continue
			}
			if i == 0 {
				h.first += m.Held
			} else {
				(*h.more)[i-1] += m.Held
			}
			break
		}
	}
}

func (h *holding) amounts() budget.Amounts {
	out := budget.Amounts{}
	for i, unit := range h.path.units {
		if i == 0 {
			out[unit] = h.first
		} else {
			out[unit] = (*h.more)[i-1]
		}
	}
	return out
}

func (f *fold) path(e *budget.Entry) *path {
	f.key = append(f.key[:0], e.Org...)
	for _, m := range e.Moves {
		f.key = appendID(f.key, m.LimitID)
	}
	if p := f.paths[string(f.key)]; p != nil {
		return p
	}
	limits := make([]*limit, len(e.Moves))
	for i, m := range e.Moves {
		limits[i] = f.limit(budget.Counter{Org: e.Org, LimitID: m.LimitID})
	}
	return f.newPath(e.Org, limits)
}

// appendID adds a limit to the key of a path.
func appendID(key []byte, id budget.LimitID) []byte {
	for _, part := range [...]string{id.Pool, id.Unit, id.Period} {
		key = append(append(key, 0), part...)
	}
	return key
}

func (f *fold) newPath(org string, limits []*limit) *path {
	p := &path{org: org, limits: limits}
	key := []byte(org)
	for _, l := range limits {
		key = appendID(key, l.id.LimitID)
		if !slices.Contains(p.units, l.id.Unit) {
			p.units = append(p.units, l.id.Unit)
		}
	}
	f.paths[string(key)] = p
	return p
}

func (f *fold) count(p *path, n int64) {
	for _, l := range p.limits {
		l.outstanding += n
		f.mark(l)
	}
}

func (f *fold) mark(l *limit) {
	if !l.dirty {
		l.dirty = true
		f.dirty = append(f.dirty, l)
	}
}

func (f *fold) add(execution uuid.UUID, e *budget.Entry) {
	if h, ok := f.live[execution]; ok {
		h.take(e.Moves)
		f.live[execution] = h
	}
}

// expire keeps a reservation outstanding while its money is withheld.
func (f *fold) expire(execution uuid.UUID, e *budget.Entry) {
	if r, ok := f.refused[execution]; ok {
		var detail struct{ Charged budget.Amounts }
		if json.Unmarshal(e.Detail, &detail) == nil {
			r.uncharged = minus(r.booked, detail.Charged)
			f.refused[execution] = r
		}
	}
	for _, m := range e.Moves {
		if m.Withheld > 0 {
			return
		}
	}
	f.drop(execution)
}

func (f *fold) refuse(execution uuid.UUID, e *budget.Entry) {
	var detail struct{ Booked, Actual, Authorised budget.Amounts }
	if json.Unmarshal(e.Detail, &detail) != nil {
		return
	}
	booked := detail.Booked
	if booked == nil {
		booked = detail.Actual
	}
	f.refused[execution] = refusal{e.Org, booked, minus(booked, detail.Authorised)}
}

// minus is what a has more than b, unit by unit.
func minus(a, b budget.Amounts) budget.Amounts {
	out := budget.Amounts{}
	for unit, n := range a {
		if n > b[unit] {
			out[unit] = n - b[unit]
		}
	}
	return out
}

func (f *fold) resolve(execution uuid.UUID, e *budget.Entry) {
	_, outstanding := f.live[execution]
	_, refused := f.refused[execution]
	if e.Kind == budget.KindLateSettled && !outstanding && !refused {
		tallyOf(f.late, e.Org).add(moved(e, func(m budget.Move) int64 { return m.Spent }))
	}
	if e.Kind != budget.KindLapsed {
		delete(f.refused, execution)
	}
	f.drop(execution)
}

func (f *fold) drop(execution uuid.UUID) {
	if h, ok := f.live[execution]; ok {
		delete(f.live, execution)
		f.count(h.path, -1)
	}
}

// moved is what an entry moved by some measure, once per unit.
func moved(e *budget.Entry, measure func(budget.Move) int64) budget.Amounts {
	out := budget.Amounts{}
	for _, m := range e.Moves {
		out[m.Unit] = max(out[m.Unit], measure(m))
	}
	return out
}

// restored is a limit as a rebuild writes it back. A cap that is not the
// policy's own was changed while the counters were gone: its revision stays
// below, so that the registrar applies the policy again.
func (l *limit) restoredRev() int64 {
	if l.counters.Cap != l.rules.Cap {
		return l.rules.Rev - 1
	}
	return l.rules.Rev
}

// retained reports whether a record is still remembered at a time.
func retained(state budget.State, at, now time.Time) bool {
	switch state {
	case budget.StateHeld:
		return true
	case budget.StateExpired, budget.StateLapsed:
		return now.Sub(at) < budget.UnsettledKept
	}
	return now.Sub(at) < budget.ResolvedKept
}
