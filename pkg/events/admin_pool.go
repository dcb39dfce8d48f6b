package events

// Policies for a settle above its reservation.
const (
	OverrunReject = "reject"
	OverrunCharge = "charge"
)

// LimitSpec is a limit as pool_create asks for it; Cap nil is no cap.
type LimitSpec struct {
	Unit         string  `json:"unit"`
	Cap          *int64  `json:"cap"`
	Period       *string `json:"period,omitempty"`
	Epsilon      *int64  `json:"epsilon,omitempty"`
	OnOverrun    *string `json:"on_overrun,omitempty"`
	LateWindowMS *int64  `json:"late_window_ms,omitempty"`
}

// Slot bounds how many reservations may hold a target at once.
type Slot struct {
	Pattern string `json:"pattern"`
	Max     int64  `json:"max"`
}

// PoolCreate makes a pool with its limits.
type PoolCreate struct {
	Org    string      `json:"org"`
	Pool   string      `json:"pool"`
	Parent *string     `json:"parent,omitempty"`
	Limits []LimitSpec `json:"limits"`
	Slots  []Slot      `json:"slots,omitzero"`
}

// DecodePoolCreate reads a request strictly.
func DecodePoolCreate(data []byte) (PoolCreate, *Error) {
	var q PoolCreate
	r, err := begin(data)
	if err != nil {
		return q, err
	}
	for m := r.object(""); m.next(); {
		switch string(m.name) {
		case "org":
			q.Org = m.org()
		case "pool":
			q.Pool = m.nameOf()
		case "parent":
			q.Parent = new(m.nameOf())
		case "limits":
			q.Limits = r.limits()
		case "slots":
			q.Slots = r.slots()
		default:
			m.unknown()
		}
	}
	r.need(q.Org != "", "org", "")
	r.need(q.Pool != "", "pool", "")
	r.need(len(q.Limits) > 0, "limits", "a pool has at least one limit")
	if err := r.finish(); err != nil {
		return PoolCreate{}, err
	}
	return q, nil
}

func (r *reader) limits() []LimitSpec {
	var out []LimitSpec
	for a := r.array("limits"); a.next(); {
		if len(out) == MaxLimits {
			r.fail(faultMeaning, "limits", "at most 32 limits", "")
		}
		spec := r.limit()
		for _, other := range out {
			if other.Unit == spec.Unit && orNone(other.Period) == orNone(spec.Period) {
				r.fail(faultMeaning, "limits", "two limits with the same unit and period", "")
			}
		}
		out = append(out, spec)
	}
	return out
}

func orNone(period *string) string {
	if period == nil {
		return "none"
	}
	return *period
}

func (r *reader) limit() LimitSpec {
	var l LimitSpec
	given := false
	for m := r.object("limits"); m.next(); {
		switch string(m.name) {
		case "unit":
			l.Unit = m.unit()
		case "cap":
			given = true
			l.Cap = m.capOrNull()
		case "period":
			l.Period = new(m.period())
		case "epsilon":
			l.Epsilon = new(m.integer(0, MaxAmount))
		case "on_overrun":
			l.OnOverrun = new(m.oneOf(OverrunReject, OverrunCharge))
		case "late_window_ms":
			l.LateWindowMS = new(m.integer(LateWindowPeriod, LateWindowMaxMS))
		default:
			m.unknown()
		}
	}
	r.need(l.Unit != "", "limits.unit", "")
	r.need(given, "limits.cap", "a number, or null for no cap")
	return l
}

func (m *members) unit() string {
	path := m.field()
	v := m.r.text(path, 1, MaxNameBytes)
	if m.r.ok() && !ValidUnit(v) {
		m.r.fail(faultMeaning, path, "is no unit name: lower-case letters, digits and _, at most 32", "")
	}
	return v
}

func (m *members) period() string {
	path := m.field()
	v := m.r.text(path, 1, MaxNameBytes)
	if m.r.ok() && !ValidPeriod(v) {
		m.r.fail(faultMeaning, path, "is no period", "such as none, day or month")
	}
	return v
}

// capOrNull reads a cap; null, no cap, gives nil.
func (m *members) capOrNull() *int64 {
	r := m.r
	if r.ok() && r.peek() == 'n' {
		r.literal("null")
		return nil
	}
	return new(m.integer(0, MaxAmount))
}

func (r *reader) slots() []Slot {
	out := []Slot{}
	for a := r.array("slots"); a.next(); {
		if len(out) == MaxSlots {
			r.fail(faultMeaning, "slots", "at most 32 slots", "")
		}
		var s Slot
		for m := r.object("slots"); m.next(); {
			switch string(m.name) {
			case "pattern":
				s.Pattern = m.target()
			case "max":
				s.Max = m.integer(1, MaxSlotHolders)
			default:
				m.unknown()
			}
		}
		r.need(s.Pattern != "", "slots.pattern", "* matches every target")
		r.need(s.Max > 0, "slots.max", "")
		for _, other := range out {
			if other.Pattern == s.Pattern {
				r.fail(faultMeaning, "slots", "the same pattern twice", "")
			}
		}
		out = append(out, s)
	}
	return out
}

// PoolSet changes what it names. Without Unit it means the pool's only limit.
// CapGiven with a nil Cap takes the cap away; nil Slots leaves them as they
// are, empty ones remove them.
type PoolSet struct {
	Org          string
	Pool         string
	Unit         *string
	Period       *string
	CapGiven     bool
	Cap          *int64
	Epsilon      *int64
	OnOverrun    *string
	LateWindowMS *int64
	Slots        []Slot
}

// DecodePoolSet reads a request strictly.
func DecodePoolSet(data []byte) (PoolSet, *Error) {
	var q PoolSet
	r, err := begin(data)
	if err != nil {
		return q, err
	}
	for m := r.object(""); m.next(); {
		switch string(m.name) {
		case "org":
			q.Org = m.org()
		case "pool":
			q.Pool = m.nameOf()
		case "unit":
			q.Unit = new(m.unit())
		case "period":
			q.Period = new(m.period())
		case "cap":
			q.CapGiven = true
			q.Cap = m.capOrNull()
		case "epsilon":
			q.Epsilon = new(m.integer(0, MaxAmount))
		case "on_overrun":
			q.OnOverrun = new(m.oneOf(OverrunReject, OverrunCharge))
		case "late_window_ms":
			q.LateWindowMS = new(m.integer(LateWindowPeriod, LateWindowMaxMS))
		case "slots":
			q.Slots = r.slots()
		default:
			m.unknown()
		}
	}
	r.need(q.Org != "", "org", "")
	r.need(q.Pool != "", "pool", "")
	if err := r.finish(); err != nil {
		return PoolSet{}, err
	}
	return q, nil
}

// MarshalJSON writes the request: a given nil cap is null.
func (q PoolSet) MarshalJSON() ([]byte, error) {
	dst := appendString([]byte(`{"org":`), q.Org)
	dst = appendText(dst, "pool", q.Pool)
	dst = appendMaybe(dst, "unit", q.Unit)
	dst = appendMaybe(dst, "period", q.Period)
	if q.CapGiven && q.Cap == nil {
		dst = append(appendName(dst, "cap"), "null"...)
	} else {
		dst = appendOptional(dst, "cap", q.Cap)
	}
	dst = appendOptional(dst, "epsilon", q.Epsilon)
	dst = appendMaybe(dst, "on_overrun", q.OnOverrun)
	dst = appendOptional(dst, "late_window_ms", q.LateWindowMS)
	if q.Slots != nil {
		dst = appendJSON(appendName(dst, "slots"), q.Slots)
	}
	return append(dst, '}'), nil
}

func appendMaybe(dst []byte, name string, v *string) []byte {
	if v == nil {
		return dst
	}
	return appendString(appendName(dst, name), *v)
}

// PoolName asks for pool_freeze, pool_unfreeze or pool_close.
type PoolName struct {
	Org  string `json:"org"`
	Pool string `json:"pool"`
}

// DecodePoolName reads a request strictly.
func DecodePoolName(data []byte) (PoolName, *Error) {
	q, err := DecodePoolShow(data)
	if err != nil {
		return PoolName{}, err
	}
	if q.Pool == nil {
		return PoolName{}, InvalidArgument("pool", "is missing", "")
	}
	return PoolName{Org: q.Org, Pool: *q.Pool}, nil
}

// PoolShow asks for one pool, or all of an org.
type PoolShow struct {
	Org  string  `json:"org"`
	Pool *string `json:"pool,omitempty"`
}

// DecodePoolShow reads a request strictly.
func DecodePoolShow(data []byte) (PoolShow, *Error) {
	var q PoolShow
	r, err := begin(data)
	if err != nil {
		return q, err
	}
	for m := r.object(""); m.next(); {
		switch string(m.name) {
		case "org":
			q.Org = m.org()
		case "pool":
			q.Pool = new(m.nameOf())
		default:
			m.unknown()
		}
	}
	r.need(q.Org != "", "org", "")
	if err := r.finish(); err != nil {
		return PoolShow{}, err
	}
	return q, nil
}
