package events

// Charge books a cost in one step, without a reservation.
type Charge struct {
	Actual     map[string]int64  `json:"actual"`
	Pool       *string           `json:"pool,omitempty"`
	Incurred   *bool             `json:"incurred,omitempty"`
	Purpose    *string           `json:"purpose,omitempty"`
	OnBehalfOf *string           `json:"on_behalf_of,omitempty"`
	Labels     map[string]string `json:"labels,omitzero"`
}

// DecodeCharge reads a request strictly.
func DecodeCharge(data []byte) (Charge, *Error) {
	var q Charge
	r, err := begin(data)
	if err != nil {
		return q, err
	}
	for m := r.object(""); m.next(); {
		switch string(m.name) {
		case "actual":
			q.Actual = m.amounts(0)
		case "pool":
			q.Pool = new(m.nameOf())
		case "incurred":
			q.Incurred = new(m.boolean())
		case "purpose":
			q.Purpose = new(m.purpose())
		case "on_behalf_of":
			q.OnBehalfOf = new(m.onBehalfOf())
		case "labels":
			q.Labels = m.labels()
		default:
			m.unknown()
		}
	}
	r.need(q.Actual != nil, "actual", `such as {"actual":{"usd_microcents":250000}}`)
	if err := r.finish(); err != nil {
		return Charge{}, err
	}
	return q, nil
}

// Fingerprint is equal for equal content, as sent.
func (q Charge) Fingerprint() string {
	var room [512]byte
	d := digest{b: room[:0]}
	d.name(VerbCharge)
	d.amounts("actual", q.Actual)
	d.text("pool", q.Pool)
	d.flag("incurred", q.Incurred)
	d.text("purpose", q.Purpose)
	d.text("on_behalf_of", q.OnBehalfOf)
	d.labels("labels", q.Labels)
	return d.sum()
}

// ChargeAnswer is charged or denied. Denial is set where Outcome is denied.
type ChargeAnswer struct {
	Outcome     string            `json:"outcome"`
	Charged     map[string]int64  `json:"charged,omitempty"`
	Pools       []PoolRow         `json:"pools,omitempty"`
	PoolMissing bool              `json:"pool_missing,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Denial      *Denial           `json:"-"`
}

// Append writes the answer.
func (a ChargeAnswer) Append(dst []byte) []byte {
	dst = appendOutcome(dst, a.Outcome)
	if a.Denial != nil {
		dst = a.Denial.append(dst)
		return append(appendLabels(dst, a.Labels), '}')
	}
	dst = appendAmounts(appendName(dst, "charged"), a.Charged)
	dst = appendPools(dst, a.Pools)
	dst = appendTrue(dst, "pool_missing", a.PoolMissing)
	return append(appendLabels(dst, a.Labels), '}')
}

// ParseChargeAnswer reads an answer; the error is an *Error where the broker
// answered one.
func ParseChargeAnswer(data []byte) (ChargeAnswer, error) {
	var a ChargeAnswer
	if err := parse(data, &a); err != nil {
		return ChargeAnswer{}, err
	}
	var err error
	a.Denial, err = parseDenial(a.Outcome, data)
	return a, err
}
