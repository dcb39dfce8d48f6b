package events

import "encoding/json"

// Words of a settle's status.
const (
	StatusSuccess = "success"
	StatusFailure = "failure"
	StatusUnknown = "unknown"
)

// Settle books what was really spent.
type Settle struct {
	Reservation *string          `json:"reservation,omitempty"`
	Key         *string          `json:"key,omitempty"`
	Actual      map[string]int64 `json:"actual,omitzero"`
	Status      *string          `json:"status,omitempty"`
	Dispatched  *bool            `json:"dispatched,omitempty"`
	Final       *bool            `json:"final,omitempty"`
	Usage       json.RawMessage  `json:"usage,omitempty"`
}

// DecodeSettle reads a request strictly.
func DecodeSettle(data []byte) (Settle, *Error) {
	var q Settle
	r, err := begin(data)
	if err != nil {
		return q, err
	}
	for m := r.object(""); m.next(); {
		if !q.member(&m) {
			m.unknown()
		}
	}
	r.reference(q.Reservation, q.Key)
	if err := r.finish(); err != nil {
		return Settle{}, err
	}
	return q, nil
}

// member reads one member of a settle, an agent's or an operator's.
func (q *Settle) member(m *members) bool {
	switch string(m.name) {
	case "reservation":
		q.Reservation = new(m.uuid())
	case "key":
		q.Key = new(m.key())
	case "actual":
		q.Actual = m.amounts(0)
	case "status":
		q.Status = new(m.oneOf(StatusSuccess, StatusFailure, StatusUnknown))
	case "dispatched":
		q.Dispatched = new(m.boolean())
	case "final":
		q.Final = new(m.boolean())
	case "usage":
		q.Usage = m.usage()
	default:
		return false
	}
	return true
}

// Fingerprint is equal for equal content, as sent.
func (q Settle) Fingerprint() string {
	var room [512]byte
	d := digest{b: room[:0]}
	d.name(VerbSettle)
	d.text("reservation", q.Reservation)
	d.text("key", q.Key)
	d.amounts("actual", q.Actual)
	d.text("status", q.Status)
	d.flag("dispatched", q.Dispatched)
	d.flag("final", q.Final)
	d.free("usage", q.Usage)
	return d.sum()
}

// SettleAnswer is settled, late_settled, or denied with reason overrun.
type SettleAnswer struct {
	Outcome     string           `json:"outcome"`
	Reservation string           `json:"reservation,omitempty"`
	Charged     map[string]int64 `json:"charged,omitempty"`
	Returned    map[string]int64 `json:"returned,omitempty"`
	Overrun     map[string]int64 `json:"overrun,omitempty"`
	CostUnknown bool             `json:"cost_unknown,omitempty"`
	PoolMissing bool             `json:"pool_missing,omitempty"`

	// Of a denial.
	Reason     Reason           `json:"reason,omitempty"`
	Authorised map[string]int64 `json:"authorised,omitempty"`
	Actual     map[string]int64 `json:"actual,omitempty"`
	Epsilon    map[string]int64 `json:"epsilon,omitempty"`
}

// Append writes the answer.
func (a SettleAnswer) Append(dst []byte) []byte {
	dst = appendOutcome(dst, a.Outcome)
	if a.Outcome == OutcomeDenied {
		dst = appendText(dst, "reason", string(a.Reason))
		dst = appendText(dst, "reservation", a.Reservation)
		dst = appendAmounts(appendName(dst, "authorised"), a.Authorised)
		dst = appendAmounts(appendName(dst, "actual"), a.Actual)
		return append(appendAmounts(appendName(dst, "epsilon"), a.Epsilon), '}')
	}
	dst = appendText(dst, "reservation", a.Reservation)
	dst = appendAmounts(appendName(dst, "charged"), a.Charged)
	dst = appendAmounts(appendName(dst, "returned"), a.Returned)
	if len(a.Overrun) > 0 {
		dst = appendAmounts(appendName(dst, "overrun"), a.Overrun)
	}
	dst = appendTrue(dst, "cost_unknown", a.CostUnknown)
	dst = appendTrue(dst, "pool_missing", a.PoolMissing)
	return append(dst, '}')
}

// ParseSettleAnswer reads an answer; the error is an *Error where the broker
// answered one.
func ParseSettleAnswer(data []byte) (SettleAnswer, error) {
	var a SettleAnswer
	return a, parse(data, &a)
}
