// Package report adds up an org's ledger for its finance people and writes the
// result as JSON, CSV and one self-contained HTML page.
//
// It is pure: an [Aggregator] takes entries in the order of the ledger, with
// nothing of what came before but its own state, and gives a [Report]. Memory
// follows what is outstanding and what there is to name, never the number of
// entries. Sums are integers and tie: in every dimension but pools the rows add
// up to the totals. A pool tree books one reservation on every level, so pool
// rows and limits count what was moved on each pool, and everything else counts
// each unit once per entry.
package report

import (
	"cmp"
	"slices"
	"time"

	"tallystick/pkg/budget"
	"tallystick/pkg/events"
)

// Version is that of the JSON document; schema/report.json describes it.
const Version = 1

// Type names the JSON document.
const Type = "tally.report.v1"

// Dimensions, in the order in which they are written.
const (
	ByPool      = "pool"
	ByAgent     = "agent"
	ByPrincipal = "principal"
	ByTarget    = "target"
	ByKind      = "kind"
	ByDay       = "day"
)

// Dimensions lists them.
func Dimensions() []string {
	return []string{ByPool, ByAgent, ByPrincipal, ByTarget, ByKind, ByDay}
}

// Earlier is the row by day of what happened before the report's range: it has
// the opening figures of held and withheld, and nothing else.
const Earlier = "earlier"

// Other is the row of what came after a dimension had RowsMax rows.
const Other = "(other)"

// RowsMax bounds the rows of a dimension.
const RowsMax = 50_000

// AsOf is the last entry that a report counts, in its org's chain.
type AsOf struct {
	Seq       uint64 `json:"seq"`
	StreamSeq uint64 `json:"stream_seq"`
	Hash      string `json:"hash"`
}

// Report is an org's ledger from From up to, not including, To.
type Report struct {
	V         int              `json:"v"`
	Type      string           `json:"type"`
	ID        string           `json:"id"`
	Org       string           `json:"org"`
	From      string           `json:"from"`
	To        string           `json:"to"`
	Zone      string           `json:"zone"` // of its days
	AsOf      AsOf             `json:"as_of"`
	Entries   int64            `json:"entries"` // in the range
	Truncated []string         `json:"truncated"`
	Totals    []Sums           `json:"totals"`
	Rows      map[string][]Row `json:"rows"` // by dimension
	Limits    []Limit          `json:"limits"`
	Series    Series           `json:"series"`
	Drift     Drift            `json:"drift"`
}

// Row is one pool, agent, principal, target, kind or day. What has no name,
// such as work on nobody's behalf, has the key "".
type Row struct {
	Key   string `json:"key"`
	Label string `json:"label,omitempty"` // an agent's name
	Units []Sums `json:"units"`
}

// Sums are what was moved in one unit. All but Held and Withheld, which are
// figures at the end of the range, are of the range alone.
type Sums struct {
	Unit    string `json:"unit"`
	Entries int64  `json:"entries"`

	Reserved int64 `json:"reserved"` // by reserve and extend
	Spent    int64 `json:"spent"`    // settled, late settled, charged and corrected
	Returned int64 `json:"returned"` // held, and not spent
	Held     int64 `json:"held"`
	Withheld int64 `json:"withheld"`

	Overruns       int64 `json:"overruns"` // accepted: spent above what was reserved
	Overrun        int64 `json:"overrun"`
	Refusals       int64 `json:"refusals"` // of overruns
	OverrunRefused int64 `json:"overrun_refused"`
	LateSettles    int64 `json:"late_settles"`
	LateSettled    int64 `json:"late_settled"`
	Expiries       int64 `json:"expiries"`
	Expired        int64 `json:"expired"`
	Lapses         int64 `json:"lapses"`
	Lapsed         int64 `json:"lapsed"`

	Corrections int64 `json:"corrections"` // entries that are corrected, refunded or disputed
	Corrected   int64 `json:"corrected"`   // part of spent, as are the next two
	Refunded    int64 `json:"refunded"`
	Disputed    int64 `json:"disputed"` // claims too, which move nothing; below 0 as what comes back is
	Adjusted    int64 `json:"adjusted"`
	CapChanges  int64 `json:"cap_changes"` // how often; Limits have from what to what
}

// Limit is one limit's counters at the end of the range, and how its cap was
// at the beginning.
type Limit struct {
	Pool      string `json:"pool"`
	Unit      string `json:"unit"`
	Period    string `json:"period"`
	CapBefore int64  `json:"cap_before"`
	Cap       int64  `json:"cap"`
	Adj       int64  `json:"adj"`
	Held      int64  `json:"held"`
	Spent     int64  `json:"spent"`
	Withheld  int64  `json:"withheld"`
	Remaining int64  `json:"remaining"`
}

// Series are figures over time. A point stands where something changed; until
// the next one nothing did.
type Series struct {
	Step   string        `json:"step"`  // hour or day
	Edges  []string      `json:"edges"` // where steps begin, and the end of the last
	Org    []UnitSeries  `json:"org"`
	Limits []LimitSeries `json:"limits"` // of the topmost pools
	Events []EventPoint  `json:"events"`
}

// UnitSeries is what the org spent in each step, and held at its end.
type UnitSeries struct {
	Unit         string      `json:"unit"`
	OpenHeld     int64       `json:"open_held"`
	OpenWithheld int64       `json:"open_withheld"`
	Points       []UnitPoint `json:"points"`
}

// UnitPoint is one step; At is its index in Edges.
type UnitPoint struct {
	At       int   `json:"at"`
	Spent    int64 `json:"spent"` // in this step
	Held     int64 `json:"held"`  // at its end
	Withheld int64 `json:"withheld"`
}

// LimitSeries is one limit's counters at the end of each step.
type LimitSeries struct {
	Pool   string       `json:"pool"`
	Unit   string       `json:"unit"`
	Period string       `json:"period"`
	Points []LimitPoint `json:"points"`
}

// LimitPoint is one step; At is its index in Edges, -1 for what was before.
type LimitPoint struct {
	At       int   `json:"at"`
	Cap      int64 `json:"cap"` // with adjustments
	Spent    int64 `json:"spent"`
	Held     int64 `json:"held"`
	Withheld int64 `json:"withheld"`
}

// EventPoint counts entries of one step.
type EventPoint struct {
	At             int   `json:"at"`
	Overruns       int64 `json:"overruns"`
	OverrunRefused int64 `json:"overrun_refused"`
	LateSettled    int64 `json:"late_settled"`
	Expired        int64 `json:"expired"`
}

// Drift is what the reconciler alarmed of in the range. Events are kept for a
// limited time: Since says from when on nothing is missing.
type Drift struct {
	Since  string       `json:"since"`
	Points []DriftPoint `json:"points"`
}

// DriftPoint is the worst of one step.
type DriftPoint struct {
	At       int              `json:"at"`
	Alarms   int64            `json:"alarms"`
	Counters int              `json:"counters"` // that differed at once, at most
	Amounts  map[string]int64 `json:"amounts"`  // the largest sum of differences, by unit
}

// unitOrder orders units: money first.
func unitOrder(a, b string) int {
	if (a == moneyUnit) != (b == moneyUnit) {
		if a == moneyUnit {
			return -1
		}
		return 1
	}
	return cmp.Compare(a, b)
}

// remaining is what a limit could still take; one without a cap has no end.
func remaining(c budget.Counters) int64 {
	if c.Cap == budget.MaxAmount {
		return budget.MaxAmount
	}
	return c.Remaining()
}

// Find gives a row of a dimension.
func (r *Report) Find(dimension, key string) (Row, bool) {
	i := slices.IndexFunc(r.Rows[dimension], func(row Row) bool { return row.Key == key })
	if i < 0 {
		return Row{}, false
	}
	return r.Rows[dimension][i], true
}

func stamp(t time.Time) string { return events.FormatTime(t.UTC()) }
