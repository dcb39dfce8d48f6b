package budget

import (
	"encoding/json"
	"time"
)

// Kind is what a ledger entry records.
type Kind string

// Kinds of ledger entries.
const (
	KindReserved        Kind = "reserved"
	KindSettled         Kind = "settled"
	KindReleased        Kind = "released"
	KindExpired         Kind = "expired"
	KindLapsed          Kind = "lapsed"
	KindLateSettled     Kind = "late_settled"
	KindOverrunRefused  Kind = "overrun_refused"
	KindCharged         Kind = "charged"
	KindExtended        Kind = "extended"
	KindDenied          Kind = "denied"
	KindCorrected       Kind = "corrected"
	KindRefunded        Kind = "refunded"
	KindDisputed        Kind = "disputed"
	KindPolicyChanged   Kind = "policy_changed"
	KindAgentRegistered Kind = "agent_registered"
	KindAgentRevoked    Kind = "agent_revoked"
	KindAdministered    Kind = "administered"
	KindGap             Kind = "gap"
)

// Entry is one effect: what a script did and to which counters. It is made
// inside the script that moved the counters and travels through the outbox to
// the ledger.
type Entry struct {
	Partition  int
	OutboxID   string
	Org        string
	At         time.Time // Redis's clock, µs
	Kind       Kind
	Execution  string
	Agent      string
	OnBehalfOf string
	Key        string
	Labels     map[string]string
	Trace      string
	Moves      []Move
	Detail     json.RawMessage // object with the kind's own fields, or nil
	Record     string          // the execution record after this entry, or ""
}

// Counter names one limit across orgs.
type Counter struct {
	Org string
	LimitID
}

// Fold sums the moves of entries into counters. Moves marked Missing count
// too: they had no counters to land on, and a rebuild makes up for them.
type Fold map[Counter]Counters

// Apply adds one entry to the fold.
func (f Fold) Apply(e Entry) {
	for _, m := range e.Moves {
		c := Counter{e.Org, m.LimitID}
		f[c] = f[c].Plus(m)
	}
}
