// Package budget is the pure core of Tallystick: amounts, limits, decisions,
// ledger entries and the fold that turns entries back into counters.
//
// It performs no I/O and imports nothing of this module. Amounts are integers
// between 1 and [MaxAmount]; the unit names what they count (usd_microcents is
// 1e-8 USD).
package budget

import "time"

// MaxAmount is the largest amount one message may carry. Lua numbers are
// doubles, so 2^53-1 is the last integer a script can compare exactly.
const MaxAmount int64 = 1<<53 - 1

// Amounts maps a unit to an integer amount in that unit.
type Amounts map[string]int64

// LimitID names one limit of a pool in one period, within an org.
type LimitID struct{ Pool, Unit, Period string }

// PeriodNone is the period id of limits that never roll over.
const PeriodNone = "none"

// Counters are the figures of one limit. Cap and Adj bound what Held, Spent
// and Withheld may add up to.
type Counters struct{ Cap, Adj, Held, Spent, Withheld int64 }

// Remaining is what a new reservation could still take; it is negative when
// late settles or charged overruns went past the cap.
func (c Counters) Remaining() int64 { return c.Cap + c.Adj - c.Held - c.Spent - c.Withheld }

// Plus adds the figures of a move.
func (c Counters) Plus(m Move) Counters {
	return Counters{c.Cap + m.Cap, c.Adj + m.Adj, c.Held + m.Held, c.Spent + m.Spent, c.Withheld + m.Withheld}
}

// Move is what one ledger entry did to one limit. Missing marks a move that
// was due but had no counters to land on.
type Move struct {
	LimitID
	Held, Spent, Withheld, Cap, Adj int64
	Missing                         bool
}

// State is where a reservation is in its life.
type State string

// States of an execution record. Charged, Denied and Tombstone are records
// that never held money.
const (
	StateHeld        State = "held"
	StateSettled     State = "settled"
	StateReleased    State = "released"
	StateExpired     State = "expired"
	StateLapsed      State = "lapsed"
	StateLateSettled State = "late_settled"
	StateCharged     State = "charged"
	StateDenied      State = "denied"
	StateTombstone   State = "tombstone"
)

// Agent is the identity a script believes: the holder or caller, and its
// immutable ancestors, parent first and root last.
type Agent struct {
	Org, ID   string
	Ancestors []string
}

// Limit is a limit as a request meets it: the revision its keys were built
// from, and a ceiling that arrived with the request (0 means none).
type Limit struct {
	LimitID
	Rev     int64
	Ceiling int64
}

// Slot is a concurrency limit that matches the request's target.
type Slot struct {
	Pool, Pattern string
	Max           int64
}

// PoolRow shows one limit in an answer.
type PoolRow struct {
	LimitID
	Counters
	Outstanding int64
}

// Clock bounds used by every script.
const (
	TTLMin        = time.Second
	TTLMax        = 24 * time.Hour
	TTLDefault    = 10 * time.Minute
	ExtendMax     = 7 * 24 * time.Hour
	ResolvedKept  = 24 * time.Hour
	DenialKept    = time.Hour
	UnsettledKept = 30 * 24 * time.Hour

	LateWindowDefault = time.Hour
)
