package events

import (
	"encoding/json"
	"time"
)

// Reserve asks for money before it is spent.
type Reserve struct {
	Amounts    map[string]int64  `json:"amounts"`
	Pool       *string           `json:"pool,omitempty"`
	TTLMS      *int64            `json:"ttl_ms,omitempty"`
	Target     *string           `json:"target,omitempty"`
	Ceilings   map[string]int64  `json:"ceilings,omitzero"`
	Settler    *string           `json:"settler,omitempty"`
	Purpose    *string           `json:"purpose,omitempty"`
	OnBehalfOf *string           `json:"on_behalf_of,omitempty"`
	Labels     map[string]string `json:"labels,omitzero"`
	DryRun     *bool             `json:"dry_run,omitempty"`
}

// DecodeReserve reads a request strictly.
func DecodeReserve(data []byte) (Reserve, *Error) {
	var q Reserve
	r, err := begin(data)
	if err != nil {
		return q, err
	}
	for m := r.object(""); m.next(); {
		switch string(m.name) {
		case "amounts":
			q.Amounts = m.amounts(1)
		case "pool":
			q.Pool = new(m.nameOf())
		case "ttl_ms":
			q.TTLMS = new(m.integer(TTLMinMS, TTLMaxMS))
		case "target":
			q.Target = new(m.target())
		case "ceilings":
			q.Ceilings = m.amounts(1)
		case "settler":
			q.Settler = new(m.uuid())
		case "purpose":
			q.Purpose = new(m.purpose())
		case "on_behalf_of":
			q.OnBehalfOf = new(m.onBehalfOf())
		case "labels":
			q.Labels = m.labels()
		case "dry_run":
			q.DryRun = new(m.boolean())
		default:
			m.unknown()
		}
	}
	r.need(q.Amounts != nil, "amounts", `such as {"amounts":{"usd_microcents":250000}}`)
	if err := r.finish(); err != nil {
		return Reserve{}, err
	}
	return q, nil
}

// Fingerprint is equal for equal content, as sent.
func (q Reserve) Fingerprint() string {
	var room [512]byte
	d := digest{b: room[:0]}
	d.name(VerbReserve)
	d.amounts("amounts", q.Amounts)
	d.text("pool", q.Pool)
	d.number("ttl_ms", q.TTLMS)
	d.text("target", q.Target)
	d.amounts("ceilings", q.Ceilings)
	d.text("settler", q.Settler)
	d.text("purpose", q.Purpose)
	d.text("on_behalf_of", q.OnBehalfOf)
	d.labels("labels", q.Labels)
	d.flag("dry_run", q.DryRun)
	return d.sum()
}

// PoolRow is one limit of a path as an answer shows it.
type PoolRow struct {
	Pool      string `json:"pool"`
	Unit      string `json:"unit"`
	Period    string `json:"period"`
	Cap       int64  `json:"cap"`
	Held      int64  `json:"held"`
	Spent     int64  `json:"spent"`
	Withheld  int64  `json:"withheld"`
	Remaining int64  `json:"remaining"`
}

// Denial says why nothing was taken. Figures are nil where they do not apply.
type Denial struct {
	Reason       Reason `json:"reason"`
	Pool         string `json:"pool,omitempty"`
	Unit         string `json:"unit,omitempty"`
	Period       string `json:"period,omitempty"`
	Requested    *int64 `json:"requested,omitempty"`
	Cap          *int64 `json:"cap,omitempty"`
	Held         *int64 `json:"held,omitempty"`
	Spent        *int64 `json:"spent,omitempty"`
	Withheld     *int64 `json:"withheld,omitempty"`
	Remaining    *int64 `json:"remaining,omitempty"`
	Holders      *int64 `json:"holders,omitempty"`
	RetryAfterMS *int64 `json:"retry_after_ms,omitempty"`
}

// ReserveAnswer is the answer of reserve and extend: allowed or denied.
// Denial is set where Outcome is denied.
type ReserveAnswer struct {
	Outcome     string            `json:"outcome"`
	Reservation string            `json:"reservation,omitempty"`
	Amounts     map[string]int64  `json:"amounts,omitempty"`
	ExpiresAt   time.Time         `json:"expires_at,omitzero"`
	ExpiresInMS *int64            `json:"expires_in_ms,omitempty"`
	Pools       []PoolRow         `json:"pools,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Warnings    []string          `json:"warnings,omitempty"`
	SimilarTo   string            `json:"similar_to,omitempty"`
	Denial      *Denial           `json:"-"`
}

// Append writes the answer.
func (a ReserveAnswer) Append(dst []byte) []byte {
	dst = appendOutcome(dst, a.Outcome)
	if a.Denial != nil {
		dst = a.Denial.append(dst)
		return append(appendLabels(dst, a.Labels), '}')
	}
	dst = appendText(dst, "reservation", a.Reservation)
	dst = appendAmounts(appendName(dst, "amounts"), a.Amounts)
	dst = appendInstant(dst, "expires_at", a.ExpiresAt)
	dst = appendOptional(dst, "expires_in_ms", a.ExpiresInMS)
	dst = appendPools(dst, a.Pools)
	dst = appendLabels(dst, a.Labels)
	for i, w := range a.Warnings {
		if i == 0 {
			dst = append(appendName(dst, "warnings"), '[')
		} else {
			dst = append(dst, ',')
		}
		dst = appendString(dst, w)
	}
	if len(a.Warnings) > 0 {
		dst = append(dst, ']')
	}
	dst = appendText(dst, "similar_to", a.SimilarTo)
	return append(dst, '}')
}

// ParseReserveAnswer reads an answer of reserve or extend; the error is an
// *Error where the broker answered one.
func ParseReserveAnswer(data []byte) (ReserveAnswer, error) {
	var a ReserveAnswer
	if err := parse(data, &a); err != nil {
		return ReserveAnswer{}, err
	}
	var err error
	a.Denial, err = parseDenial(a.Outcome, data)
	return a, err
}

func parseDenial(outcome string, data []byte) (*Denial, error) {
	if outcome != OutcomeDenied {
		return nil, nil
	}
	d := new(Denial)
	return d, parse(data, d)
}

func appendOutcome(dst []byte, outcome string) []byte {
	return appendString(append(dst, `{"outcome":`...), outcome)
}

func (d *Denial) append(dst []byte) []byte {
	dst = appendText(dst, "reason", string(d.Reason))
	dst = appendText(dst, "pool", d.Pool)
	dst = appendText(dst, "unit", d.Unit)
	dst = appendText(dst, "period", d.Period)
	dst = appendOptional(dst, "requested", d.Requested)
	dst = appendOptional(dst, "cap", d.Cap)
	dst = appendOptional(dst, "held", d.Held)
	dst = appendOptional(dst, "spent", d.Spent)
	dst = appendOptional(dst, "withheld", d.Withheld)
	dst = appendOptional(dst, "remaining", d.Remaining)
	dst = appendOptional(dst, "holders", d.Holders)
	return appendOptional(dst, "retry_after_ms", d.RetryAfterMS)
}

// appendPools leaves the rows out where there are none: a replay may have no
// figures to give.
func appendPools(dst []byte, rows []PoolRow) []byte {
	for i, p := range rows {
		if i == 0 {
			dst = append(appendName(dst, "pools"), '[')
		} else {
			dst = append(dst, ',')
		}
		dst = append(appendRow(dst, p), '}')
	}
	if len(rows) > 0 {
		dst = append(dst, ']')
	}
	return dst
}

// appendRow leaves the object open for more members.
func appendRow(dst []byte, p PoolRow) []byte {
	dst = appendString(append(dst, `{"pool":`...), p.Pool)
	dst = appendString(appendName(dst, "unit"), p.Unit)
	dst = appendString(appendName(dst, "period"), p.Period)
	return appendFigures(dst, p)
}

func appendFigures(dst []byte, p PoolRow) []byte {
	dst = appendInt(dst, "cap", p.Cap)
	dst = appendInt(dst, "held", p.Held)
	dst = appendInt(dst, "spent", p.Spent)
	dst = appendInt(dst, "withheld", p.Withheld)
	return appendInt(dst, "remaining", p.Remaining)
}

// Accepted is the durable door's answer once a command is stored.
type Accepted struct {
	Outcome string `json:"outcome"`
}

// Append writes the answer.
func (a Accepted) Append(dst []byte) []byte { return append(appendOutcome(dst, OutcomeAccepted), '}') }

// ParseAccepted reads the durable door's answer.
func ParseAccepted(data []byte) (Accepted, error) {
	var a Accepted
	return a, parse(data, &a)
}

// Outcome gives the outcome of any answer without reading the rest into a
// type; "" where it has none.
func Outcome(data []byte) string {
	var a Accepted
	if json.Unmarshal(data, &a) != nil {
		return ""
	}
	return a.Outcome
}
