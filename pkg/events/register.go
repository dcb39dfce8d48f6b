package events

// Modes of a child's budget.
const (
	BudgetShared  = "shared"
	BudgetGranted = "granted"
)

// Budget says what a new agent may spend from: its parent's pool, or a pool
// of its own with these caps.
type Budget struct {
	Mode string           `json:"mode"`
	Caps map[string]int64 `json:"caps,omitzero"`
}

// Register makes a child of the caller.
type Register struct {
	Name    string  `json:"name"`
	Budget  *Budget `json:"budget,omitempty"`
	TTLMS   *int64  `json:"ttl_ms,omitempty"`
	Purpose *string `json:"purpose,omitempty"`
}

// DecodeRegister reads a request strictly.
func DecodeRegister(data []byte) (Register, *Error) {
	var q Register
	r, err := begin(data)
	if err != nil {
		return q, err
	}
	for m := r.object(""); m.next(); {
		switch string(m.name) {
		case "name":
			q.Name = m.nameOf()
		case "budget":
			q.Budget = r.budget()
		case "ttl_ms":
			q.TTLMS = new(m.integer(TTLMinMS, AgentTTLMaxMS))
		case "purpose":
			q.Purpose = new(m.purpose())
		default:
			m.unknown()
		}
	}
	r.need(q.Name != "", "name", "")
	if err := r.finish(); err != nil {
		return Register{}, err
	}
	return q, nil
}

func (r *reader) budget() *Budget {
	var b Budget
	for m := r.object("budget"); m.next(); {
		switch string(m.name) {
		case "mode":
			b.Mode = m.oneOf(BudgetShared, BudgetGranted)
		case "caps":
			b.Caps = m.amounts(1)
		default:
			m.unknown()
		}
	}
	r.need(b.Mode != "", "budget.mode", "")
	if (b.Mode == BudgetGranted) != (b.Caps != nil) {
		r.fail(faultMeaning, "budget.caps", "belong to mode granted, and to no other", "")
	}
	return &b
}

// Fingerprint is equal for equal content, as sent.
func (q Register) Fingerprint() string {
	var room [512]byte
	d := digest{b: room[:0]}
	d.name(VerbRegister)
	d.text("name", &q.Name)
	if q.Budget != nil {
		d.text("mode", &q.Budget.Mode)
		d.amounts("caps", q.Budget.Caps)
	}
	d.number("ttl_ms", q.TTLMS)
	d.text("purpose", q.Purpose)
	return d.sum()
}

// RegisterAnswer is the new agent with its token, which is shown once; or
// Outcome denied with Reason revoked, where the caller has ended.
type RegisterAnswer struct {
	Outcome string `json:"outcome"`
	Reason  Reason `json:"reason,omitempty"`
	Agent   string `json:"agent"`
	Org     string `json:"org"`
	Name    string `json:"name"`
	Token   string `json:"token"`
	Parent  string `json:"parent"`
	Root    string `json:"root"`
	Depth   int    `json:"depth"`
	Pool    string `json:"pool"`
}

// Append writes the answer.
func (a RegisterAnswer) Append(dst []byte) []byte {
	dst = appendOutcome(dst, a.Outcome)
	if a.Reason != "" {
		return append(appendText(dst, "reason", string(a.Reason)), '}')
	}
	dst = appendText(dst, "agent", a.Agent)
	dst = appendText(dst, "org", a.Org)
	dst = appendText(dst, "name", a.Name)
	dst = appendText(dst, "token", a.Token)
	dst = appendText(dst, "parent", a.Parent)
	dst = appendText(dst, "root", a.Root)
	dst = appendInt(dst, "depth", int64(a.Depth))
	return append(appendText(dst, "pool", a.Pool), '}')
}

// ParseRegisterAnswer reads an answer; the error is an *Error where the broker
// answered one.
func ParseRegisterAnswer(data []byte) (RegisterAnswer, error) {
	var a RegisterAnswer
	return a, parse(data, &a)
}
