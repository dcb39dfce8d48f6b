package worker

import (
	"context"
	"time"

	"tallystick/pkg/events"
)

// Door tells where a request came in.
type Door int

// The doors.
const (
	Direct Door = iota
	Durable
	Operator
)

func (d Door) String() string {
	switch d {
	case Direct:
		return "direct"
	case Durable:
		return "durable"
	default:
		return "operator"
	}
}

// Request is one request of an agent, or of an operator on an agent's behalf.
// Org and Agent are attested by the subject, never by the body.
type Request struct {
	Door       Door
	Org, Agent string
	Verb       string
	Key        string // idempotency key; "" where none was sent
	Trace      string // W3C traceparent, or ""
	Body       []byte

	// Of the operators' door: who asks, and the reason that was given.
	By, Why string

	// Of the durable door. Deadline is when reserve, extend and charge may no
	// longer be executed; zero for other verbs.
	Deadline   time.Time
	StoredAt   time.Time
	Deliveries int

	badKey bool   // more than one key was sent
	reply  string // where the answer goes, or ""
	who    string // org.agent, the key of every per-agent bound
}

// Answer is what a Handler makes of one Request.
type Answer struct {
	Body     []byte
	Replayed bool          // given before: Tally-Replayed
	Denied   events.Reason // of a denial: counts towards the throttle and the denials event

	// Code and Message are set when Body is an error.
	Code, Message string

	// Retry, at the durable door, asks for redelivery after this long instead
	// of a decision: outages are waited out.
	Retry time.Duration
	// Dead, at the durable door, sends the command to the dead letters with
	// this reason before Body is published as its decision.
	Dead string

	// EventType and Event, if set, are published to the org's events.
	EventType string
	Event     []byte
}

// Handler decides requests. One call is one group commit; it answers each
// request in its place and returns as many answers as it got requests.
type Handler interface {
	Handle(ctx context.Context, reqs []*Request) []Answer
}

// Point names a place in a worker's life at which a test may cut it off.
type Point string

// The points, in the order a command meets them.
const (
	AfterStore    Point = "after_store"    // in COMMANDS, not yet answered "accepted"
	AfterScript   Point = "after_script"   // decided in Redis, nothing published
	AfterDecision Point = "after_decision" // decision flushed, not acknowledged
	BeforeAck     Point = "before_ack"     // all side effects out, ack is next
)

// Signals lets a test act at a Point: At returning false abandons the batch
// there, as a kill would. A nil *Signals is production.
type Signals struct {
	At func(Point) bool
}

func (s *Signals) pass(p Point) bool { return s == nil || s.At == nil || s.At(p) }
