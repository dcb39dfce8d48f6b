package events

// Extend moves a reservation's deadline, adds to it, or both. Its answer is a
// [ReserveAnswer].
type Extend struct {
	Reservation *string          `json:"reservation,omitempty"`
	Key         *string          `json:"key,omitempty"`
	TTLMS       *int64           `json:"ttl_ms,omitempty"`
	Add         map[string]int64 `json:"add,omitzero"`
}

// DecodeExtend reads a request strictly.
func DecodeExtend(data []byte) (Extend, *Error) {
	var q Extend
	r, err := begin(data)
	if err != nil {
		return q, err
	}
	for m := r.object(""); m.next(); {
		switch string(m.name) {
		case "reservation":
			q.Reservation = new(m.uuid())
		case "key":
			q.Key = new(m.key())
		case "ttl_ms":
			q.TTLMS = new(m.integer(TTLMinMS, TTLMaxMS))
		case "add":
			q.Add = m.amounts(1)
		default:
			m.unknown()
		}
	}
	r.reference(q.Reservation, q.Key)
	r.need(q.TTLMS != nil || q.Add != nil, "ttl_ms", "give ttl_ms, add or both")
	if err := r.finish(); err != nil {
		return Extend{}, err
	}
	return q, nil
}

// Fingerprint is equal for equal content, as sent.
func (q Extend) Fingerprint() string {
	var room [512]byte
	d := digest{b: room[:0]}
	d.name(VerbExtend)
	d.text("reservation", q.Reservation)
	d.text("key", q.Key)
	d.number("ttl_ms", q.TTLMS)
	d.amounts("add", q.Add)
	return d.sum()
}
