package events

// Release gives a reservation back.
type Release struct {
	Reservation *string `json:"reservation,omitempty"`
	Key         *string `json:"key,omitempty"`
	Reason      *string `json:"reason,omitempty"`
}

// DecodeRelease reads a request strictly.
func DecodeRelease(data []byte) (Release, *Error) {
	var q Release
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
		return Release{}, err
	}
	return q, nil
}

// member reads one member of a release, an agent's or an operator's.
func (q *Release) member(m *members) bool {
	switch string(m.name) {
	case "reservation":
		q.Reservation = new(m.uuid())
	case "key":
		q.Key = new(m.key())
	case "reason":
		q.Reason = new(m.purpose())
	default:
		return false
	}
	return true
}

// Fingerprint is equal for equal content, as sent.
func (q Release) Fingerprint() string {
	var room [512]byte
	d := digest{b: room[:0]}
	d.name(VerbRelease)
	d.text("reservation", q.Reservation)
	d.text("key", q.Key)
	d.text("reason", q.Reason)
	return d.sum()
}

// ReleaseAnswer is released, or denied with reason overrun.
type ReleaseAnswer struct {
	Outcome     string           `json:"outcome"`
	Reason      Reason           `json:"reason,omitempty"`
	Reservation string           `json:"reservation,omitempty"`
	Returned    map[string]int64 `json:"returned,omitempty"`
	PoolMissing bool             `json:"pool_missing,omitempty"`
}

// Append writes the answer.
func (a ReleaseAnswer) Append(dst []byte) []byte {
	dst = appendOutcome(dst, a.Outcome)
	dst = appendText(dst, "reason", string(a.Reason))
	dst = appendText(dst, "reservation", a.Reservation)
	if a.Outcome != OutcomeDenied {
		dst = appendAmounts(appendName(dst, "returned"), a.Returned)
	}
	dst = appendTrue(dst, "pool_missing", a.PoolMissing)
	return append(dst, '}')
}

// ParseReleaseAnswer reads an answer; the error is an *Error where the broker
// answered one.
func ParseReleaseAnswer(data []byte) (ReleaseAnswer, error) {
	var a ReleaseAnswer
	return a, parse(data, &a)
}
