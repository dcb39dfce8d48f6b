package events

import "time"

// Balance asks for every limit from a pool up to its root.
type Balance struct {
	Pool *string `json:"pool,omitempty"`
}

// DecodeBalance reads a request strictly; an empty body is {}.
func DecodeBalance(data []byte) (Balance, *Error) {
	var q Balance
	r, err := begin(optionalBody(data))
	if err != nil {
		return q, err
	}
	for m := r.object(""); m.next(); {
		switch string(m.name) {
		case "pool":
			q.Pool = new(m.nameOf())
		default:
			m.unknown()
		}
	}
	if err := r.finish(); err != nil {
		return Balance{}, err
	}
	return q, nil
}

// BalanceRow is one limit.
type BalanceRow struct {
	PoolRow
	OpensAt     time.Time `json:"opens_at,omitzero"`
	ClosesAt    time.Time `json:"closes_at,omitzero"`
	Outstanding int64     `json:"outstanding"`
}

// BalanceAnswer lists the named pool's limits first, the root's last.
type BalanceAnswer struct {
	Pools []BalanceRow `json:"pools"`
}

// Append writes the answer.
func (a BalanceAnswer) Append(dst []byte) []byte {
	dst = append(dst, `{"pools":[`...)
	for i, p := range a.Pools {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(append(dst, `{"pool":`...), p.Pool)
		dst = appendString(appendName(dst, "unit"), p.Unit)
		dst = appendString(appendName(dst, "period"), p.Period)
		dst = appendInstant(dst, "opens_at", p.OpensAt)
		dst = appendInstant(dst, "closes_at", p.ClosesAt)
		dst = appendFigures(dst, p.PoolRow)
		dst = append(appendInt(dst, "outstanding", p.Outstanding), '}')
	}
	return append(dst, "]}"...)
}

// ParseBalanceAnswer reads an answer; the error is an *Error where the broker
// answered one.
func ParseBalanceAnswer(data []byte) (BalanceAnswer, error) {
	var a BalanceAnswer
	return a, parse(data, &a)
}
