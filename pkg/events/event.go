package events

import (
	"encoding/json"
	"fmt"
	"time"
)

// eventType and a type's name make the type of an event.
const eventType = "tally.event.v1."

// EventHead is what every event has. ID is the same on every delivery of the
// same event.
type EventHead struct {
	V    int    `json:"v"`
	Type string `json:"type"`
	ID   string `json:"id"`
	Org  string `json:"org"`
	At   string `json:"at"` // RFC 3339 µs, UTC
}

// NewEventHead fills the head of an event of the given type.
func NewEventHead(name, id, org string, at time.Time) EventHead {
	return EventHead{V: 1, Type: eventType + name, ID: id, Org: org, At: FormatTime(at)}
}

// Head gives the event's head.
func (h EventHead) Head() EventHead { return h }

// EventMessage is any event; Append writes its body.
type EventMessage interface {
	Head() EventHead
	Append(dst []byte) []byte
}

// ReservationExpired tells that a reservation's deadline passed.
type ReservationExpired struct {
	EventHead
	Reservation string            `json:"reservation"`
	Agent       string            `json:"agent"`
	OnBehalfOf  string            `json:"on_behalf_of,omitempty"`
	Key         string            `json:"key,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Withheld    map[string]int64  `json:"withheld,omitempty"`
	Charged     map[string]int64  `json:"charged,omitempty"`  // after a refused overrun
	Returned    map[string]int64  `json:"returned,omitempty"` // without a late window
	LapsesAt    string            `json:"lapses_at,omitempty"`
	PoolMissing bool              `json:"pool_missing,omitempty"`
}

// NewReservationExpired makes the event of a ledger entry of kind expired.
// Entry and event have the same id, so repeating it is harmless.
func NewReservationExpired(e LedgerEntry) (ReservationExpired, error) {
	if e.Kind != KindExpired {
		return ReservationExpired{}, fmt.Errorf("entry %s is %s, not expired", e.ID, e.Kind)
	}
	v := ReservationExpired{
		EventHead:   NewEventHead(EventReservationExpired, e.ID, e.Org, e.At),
		Reservation: e.Execution, Agent: e.Agent, OnBehalfOf: e.OnBehalfOf, Key: e.Key, Labels: e.Labels,
	}
	for _, m := range e.Moves {
		v.PoolMissing = v.PoolMissing || m.Missing
	}
	var own struct {
		Withheld map[string]int64 `json:"withheld"`
		Charged  map[string]int64 `json:"charged"`
		Returned map[string]int64 `json:"returned"`
		LapsesAt string           `json:"lapses_at"`
	}
	if err := e.DecodeDetail(&own); err != nil {
		return ReservationExpired{}, err
	}
	v.Withheld, v.Charged, v.Returned, v.LapsesAt = own.Withheld, own.Charged, own.Returned, own.LapsesAt
	return v, nil
}

// Drift is the reconciler's report about one org.
type Drift struct {
	EventHead
	Verdict   string           `json:"verdict"`
	Cut       string           `json:"cut"`
	Drift     []DriftRow       `json:"drift"`
	Explained []DriftExplained `json:"explained"`
}

// SettleUnmatched tells that a durable settle or release found no reservation
// within its time and went to the dead letters.
type SettleUnmatched struct {
	EventHead
	Agent       string `json:"agent"`
	Verb        string `json:"verb"`
	Key         string `json:"key"`                   // the command's own key
	Reservation string `json:"reservation,omitempty"` // what it named
	ReserveKey  string `json:"reserve_key,omitempty"` // or that
}

// Denials counts one agent's denials of one reason within one minute.
type Denials struct {
	EventHead
	Agent  string `json:"agent"`
	Reason Reason `json:"reason"`
	Minute string `json:"minute"` // its beginning
	Count  int64  `json:"count"`
}

// LedgerHead tells the head of one org's chain: soon after it has changed, and
// now and then where it has not.
type LedgerHead struct {
	EventHead
	Seq       uint64 `json:"seq"`
	Hash      string `json:"hash"`
	EntryAt   string `json:"entry_at"`
	OutboxLag int64  `json:"outbox_lag"` // entries not yet on the ledger
}

// UnknownEvent is an event of a type or version this package does not know.
type UnknownEvent struct {
	EventHead
	Raw json.RawMessage `json:"-"`
}

// Append writes the event.
func (v ReservationExpired) Append(dst []byte) []byte { return appendJSON(dst, v) }

// Append writes the event.
func (v Drift) Append(dst []byte) []byte {
	v.Drift, v.Explained = filled(v.Drift), explained(v.Explained)
	return appendJSON(dst, v)
}

// Append writes the event.
func (v SettleUnmatched) Append(dst []byte) []byte { return appendJSON(dst, v) }

// Append writes the event.
func (v Denials) Append(dst []byte) []byte { return appendJSON(dst, v) }

// Append writes the event.
func (v LedgerHead) Append(dst []byte) []byte { return appendJSON(dst, v) }

// Append writes the event as it was received.
func (v UnknownEvent) Append(dst []byte) []byte { return append(dst, v.Raw...) }

// filled keeps an empty list from being written as null.
func filled[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// ParseEvent reads any event; a type it does not know is an UnknownEvent.
func ParseEvent(data []byte) (EventMessage, error) {
	var h EventHead
	if err := json.Unmarshal(data, &h); err != nil {
		return nil, fmt.Errorf("malformed event: %w", err)
	}
	if h.V != 1 {
		return UnknownEvent{h, data}, nil
	}
	switch h.Type {
	case eventType + EventReservationExpired:
		return parseEvent[ReservationExpired](data)
	case eventType + EventDrift:
		return parseEvent[Drift](data)
	case eventType + EventSettleUnmatched:
		return parseEvent[SettleUnmatched](data)
	case eventType + EventDenials:
		return parseEvent[Denials](data)
	case eventType + EventLedgerHead:
		return parseEvent[LedgerHead](data)
	case eventType + EventPartitionRebuilt:
		return parseEvent[PartitionRebuilt](data)
	case eventType + EventReportReady:
		return parseEvent[ReportReady](data)
	case eventType + EventLedgerRefilled:
		return parseEvent[LedgerRefilled](data)
	case eventType + EventLedgerHalted:
		return parseEvent[LedgerHalted](data)
	case eventType + EventLedgerConfigDrift:
		return parseEvent[LedgerConfigDrift](data)
	}
	return UnknownEvent{h, data}, nil
}

func parseEvent[T EventMessage](data []byte) (EventMessage, error) {
	var v T
	if err := json.Unmarshal(data, &v); err != nil {
		return nil, fmt.Errorf("malformed event: %w", err)
	}
	return v, nil
}
