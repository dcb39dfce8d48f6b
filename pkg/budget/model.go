package budget

import (
	"cmp"
	"slices"
	"time"
)

// Model is the whole authority of one org in plain Go: no I/O, no clock of its
// own, no concurrency. It is the second opinion on the Lua scripts and is
// written from the design alone; test/sim steps both side by side.
//
// Every method takes now, the authority's clock in milliseconds, and answers
// with the decision, the entries it would append, and an error where nothing
// was executed.
type Model struct {
	org     string
	fenced  bool
	limits  map[LimitID]*modelLimit
	records map[string]*modelRecord
	ends    map[string]int64            // agent -> when it ends: in the past for who is revoked
	slots   map[slotID]map[string]int64 // execution -> its deadline

	agents        map[string]*modelAgent
	registrations map[string]modelRegistration
}

// LimitPolicy is what an operator set for one limit.
type LimitPolicy struct {
	MaxTotal     int64 // the cap; MaxAmount stands for none
	Epsilon      int64
	ChargeOver   bool // on_overrun is charge, not reject
	LateWindowMS int64
	Frozen       bool
	Closed       bool // the pool is closed for good, or the clock outside the limit's period
	Rev          int64
}

// modelLimit keeps a deleted limit with gone set: that it once existed is
// what makes a later meeting pool_missing instead of nothing.
type modelLimit struct {
	LimitPolicy
	Counters
	gone bool
}

type slotID struct{ pool, pattern string }

// attempt is a remembered add or refused settle.
type attempt struct {
	fingerprint string
	decision    Decision
}

// attemptKey scopes a key by caller and verb, as all keys are scoped.
type attemptKey struct{ verb, caller, key string }

type modelRecord struct {
	state       State
	holder      Agent
	settler     string
	fingerprint string
	amounts     Amounts
	path        []LimitID
	slots       []slotID
	createdMS   int64
	deadlineMS  int64
	forgetMS    int64 // 0: kept for ever
	first       Decision
	corrected   Correction

	lastRefused Amounts // what the last refused settle would have booked
	precharged  Amounts // charged at expiry after a refused overrun
	lapseMS     int64
	attempts    map[attemptKey]attempt
	resolvedBy  attemptKey
	resolution  attempt
}

// attemptsMax bounds what one reservation remembers.
const attemptsMax = 16

// Verbs that scope remembered keys.
const (
	verbSettle  = "settle"
	verbRelease = "release"
	verbExtend  = "extend"
)

// operatorCaller scopes the keys of operators, who are no agents.
const operatorCaller = "operator"

// NewModel makes the empty authority of one org.
func NewModel(org string) *Model {
	return &Model{
		org:     org,
		limits:  map[LimitID]*modelLimit{},
		records: map[string]*modelRecord{},
		ends:    map[string]int64{},
		slots:   map[slotID]map[string]int64{},

		agents:        map[string]*modelAgent{},
		registrations: map[string]modelRegistration{},
	}
}

// record finds a record that is still remembered.
func (m *Model) record(nowMS int64, execution string) *modelRecord {
	r, ok := m.records[execution]
	if !ok {
		return nil
	}
	if r.forgetMS != 0 && nowMS >= r.forgetMS {
		delete(m.records, execution)
		return nil
	}
	return r
}

// Forgotten lists the records whose retention has ended, and forgets them.
func (m *Model) Forgotten(nowMS int64) []string {
	var gone []string
	for id := range m.records {
		if m.record(nowMS, id) == nil {
			gone = append(gone, id)
		}
	}
	slices.Sort(gone)
	return gone
}

// Keeps says how long after now the record stays; 0 means for ever, and ok is
// false where there is none.
func (m *Model) Keeps(nowMS int64, execution string) (keep time.Duration, ok bool) {
	r := m.record(nowMS, execution)
	if r == nil {
		return 0, false
	}
	if r.forgetMS == 0 {
		return 0, true
	}
	return time.Duration(r.forgetMS-nowMS) * time.Millisecond, true
}

// State is the state of a remembered record, or "".
func (m *Model) State(nowMS int64, execution string) State {
	if r := m.record(nowMS, execution); r != nil {
		return r.state
	}
	return ""
}

// Counters reads one limit; ok is false where it never existed or is gone.
func (m *Model) Counters(id LimitID) (c Counters, ok bool) {
	l := m.limit(id)
	if l == nil {
		return Counters{}, false
	}
	return l.Counters, true
}

// Limits lists every limit that is there, in a stable order.
func (m *Model) Limits() []LimitID {
	var ids []LimitID
	for id, l := range m.limits {
		if !l.gone {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, compareLimits)
	return ids
}

// Due lists the reservations that expire or lapse at now.
func (m *Model) Due(nowMS int64) []string {
	var due []string
	for id, r := range m.records {
		if m.due(r, nowMS) {
			due = append(due, id)
		}
	}
	slices.Sort(due)
	return due
}

func (m *Model) due(r *modelRecord, nowMS int64) bool {
	switch r.state {
	case StateHeld:
		return nowMS >= r.deadlineMS
	case StateExpired:
		return r.precharged == nil && nowMS >= r.lapseMS
	default:
		return false
	}
}

// Holders counts who holds a slot of a pool's pattern. A slot is free at its
// holder's deadline, reaped or not.
func (m *Model) Holders(nowMS int64, pool, pattern string) int64 {
	n := int64(0)
	for _, deadlineMS := range m.slots[slotID{pool, pattern}] {
		if deadlineMS > nowMS {
			n++
		}
	}
	return n
}

// limit is nil where a limit never existed or its counters are gone.
func (m *Model) limit(id LimitID) *modelLimit {
	l, ok := m.limits[id]
	if !ok || l.gone {
		return nil
	}
	return l
}

// mayResolve: the holder, its ancestors, the named settler, and operators.
func (r *modelRecord) mayResolve(caller Agent, operator bool) bool {
	if operator {
		return true
	}
	return caller.ID == r.holder.ID || caller.ID == r.settler ||
		slices.Contains(r.holder.Ancestors, caller.ID)
}

// apply books moves; one whose limit is gone is marked missing and skipped,
// and the limit is never made again.
func (m *Model) apply(moves []Move) (missing bool) {
	for i, mv := range moves {
		l := m.limit(mv.LimitID)
		if l == nil {
			moves[i].Missing = true
			missing = true
			continue
		}
		l.Counters = l.Counters.Plus(mv)
	}
	return missing
}

func (m *Model) entry(nowMS int64, kind Kind, execution, agent string, moves []Move) Entry {
	return Entry{
		Org: m.org, At: time.UnixMilli(nowMS).UTC(), Kind: kind,
		Execution: execution, Agent: agent, Moves: moves,
	}
}

func (m *Model) rows(path []LimitID) []PoolRow {
	rows := make([]PoolRow, 0, len(path))
	for _, id := range path {
		if l := m.limit(id); l != nil {
			rows = append(rows, PoolRow{LimitID: id, Counters: l.Counters})
		}
	}
	return rows
}

func (m *Model) freeSlots(execution string, r *modelRecord) {
	for _, s := range r.slots {
		delete(m.slots[s], execution)
	}
}

func compareLimits(a, b LimitID) int {
	return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Unit, b.Unit), cmp.Compare(a.Period, b.Period))
}

// keep sets how long a record is remembered.
func (r *modelRecord) keep(nowMS int64, d time.Duration) { r.forgetMS = nowMS + d.Milliseconds() }

func replay(d Decision) Decision {
	d.Replayed = true
	d.Pools, d.ExpiresIn = nil, 0
	return d
}

// Holder is the agent a remembered record belongs to, or "".
func (m *Model) Holder(nowMS int64, execution string) string {
	if r := m.record(nowMS, execution); r != nil {
		return r.holder.ID
	}
	return ""
}
