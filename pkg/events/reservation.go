package events

import "time"

// ReservationQuery asks for one reservation, or, with neither reservation nor
// key, for the live ones.
type ReservationQuery struct {
	Reservation *string `json:"reservation,omitempty"`
	Key         *string `json:"key,omitempty"`
	Limit       *int64  `json:"limit,omitempty"`
	Cursor      *string `json:"cursor,omitempty"`
}

// List reports whether the live reservations are asked for.
func (q ReservationQuery) List() bool { return q.Reservation == nil && q.Key == nil }

// DecodeReservationQuery reads a request strictly; an empty body is {}.
func DecodeReservationQuery(data []byte) (ReservationQuery, *Error) {
	var q ReservationQuery
	r, err := begin(optionalBody(data))
	if err != nil {
		return q, err
	}
	for m := r.object(""); m.next(); {
		switch string(m.name) {
		case "reservation":
			q.Reservation = new(m.uuid())
		case "key":
			q.Key = new(m.key())
		case "limit":
			q.Limit = new(m.integer(1, ListLimitMax))
		case "cursor":
			q.Cursor = new(m.checked(MaxCursorBytes, func(v string) bool { return validName(v, MaxCursorBytes) }))
		default:
			m.unknown()
		}
	}
	if !q.List() {
		r.reference(q.Reservation, q.Key)
		if q.Limit != nil || q.Cursor != nil {
			r.fail(faultMeaning, "limit", "given for a single reservation", "limit and cursor are for the list")
		}
	}
	if err := r.finish(); err != nil {
		return ReservationQuery{}, err
	}
	return q, nil
}

// ReservationAnswer is one reservation.
type ReservationAnswer struct {
	Reservation string            `json:"reservation"`
	State       string            `json:"state"`
	Amounts     map[string]int64  `json:"amounts"`
	Agent       string            `json:"agent"`
	Pool        string            `json:"pool"`
	Target      string            `json:"target,omitempty"`
	CreatedAt   time.Time         `json:"created_at"`
	ExpiresAt   time.Time         `json:"expires_at"`
	ResolvedAt  time.Time         `json:"resolved_at,omitzero"`
	Charged     map[string]int64  `json:"charged,omitempty"`
	Returned    map[string]int64  `json:"returned,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
}

// Append writes the answer.
func (a ReservationAnswer) Append(dst []byte) []byte {
	dst = appendString(append(dst, `{"reservation":`...), a.Reservation)
	dst = appendString(appendName(dst, "state"), a.State)
	dst = appendAmounts(appendName(dst, "amounts"), a.Amounts)
	dst = appendString(appendName(dst, "agent"), a.Agent)
	dst = appendString(appendName(dst, "pool"), a.Pool)
	dst = appendText(dst, "target", a.Target)
	dst = appendInstant(dst, "created_at", a.CreatedAt)
	dst = appendInstant(dst, "expires_at", a.ExpiresAt)
	dst = appendInstant(dst, "resolved_at", a.ResolvedAt)
	if a.Charged != nil {
		dst = appendAmounts(appendName(dst, "charged"), a.Charged)
	}
	if a.Returned != nil {
		dst = appendAmounts(appendName(dst, "returned"), a.Returned)
	}
	return append(appendLabels(dst, a.Labels), '}')
}

// ParseReservationAnswer reads an answer; the error is an *Error where the
// broker answered one.
func ParseReservationAnswer(data []byte) (ReservationAnswer, error) {
	var a ReservationAnswer
	return a, parse(data, &a)
}

// ReservationsAnswer lists live reservations; Cursor asks for the next page.
type ReservationsAnswer struct {
	Reservations []ReservationAnswer `json:"reservations"`
	Cursor       string              `json:"cursor,omitempty"`
}

// Append writes the answer.
func (a ReservationsAnswer) Append(dst []byte) []byte {
	dst = append(dst, `{"reservations":[`...)
	for i, one := range a.Reservations {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = one.Append(dst)
	}
	return append(appendText(append(dst, ']'), "cursor", a.Cursor), '}')
}

// ParseReservationsAnswer reads an answer; the error is an *Error where the
// broker answered one.
func ParseReservationsAnswer(data []byte) (ReservationsAnswer, error) {
	var a ReservationsAnswer
	return a, parse(data, &a)
}
