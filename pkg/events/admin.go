package events

// OrgCreate makes an org; making it again changes nothing.
type OrgCreate struct {
	Org     string  `json:"org"`
	Display *string `json:"display,omitempty"`
}

// DecodeOrgCreate reads a request strictly.
func DecodeOrgCreate(data []byte) (OrgCreate, *Error) {
	var q OrgCreate
	r, err := begin(data)
	if err != nil {
		return q, err
	}
	for m := r.object(""); m.next(); {
		switch string(m.name) {
		case "org":
			q.Org = m.org()
		case "display":
			q.Display = new(m.nameOf())
		default:
			m.unknown()
		}
	}
	r.need(q.Org != "", "org", "")
	if err := r.finish(); err != nil {
		return OrgCreate{}, err
	}
	return q, nil
}

// OrgCreateAnswer answers org_create.
type OrgCreateAnswer struct {
	Outcome string `json:"outcome"`
	Org     string `json:"org"`
}

// Append writes the answer.
func (a OrgCreateAnswer) Append(dst []byte) []byte { return appendJSON(dst, a) }

// ParseOrgCreateAnswer reads an answer; the error is an *Error where the
// broker answered one.
func ParseOrgCreateAnswer(data []byte) (OrgCreateAnswer, error) {
	var a OrgCreateAnswer
	return a, parse(data, &a)
}

// OperatorSettle is a settle by an operator; Key means the agent's reserve.
type OperatorSettle struct {
	Org   string `json:"org"`
	Agent string `json:"agent"`
	Settle
}

// DecodeOperatorSettle reads a request strictly.
func DecodeOperatorSettle(data []byte) (OperatorSettle, *Error) {
	var q OperatorSettle
	r, err := begin(data)
	if err != nil {
		return q, err
	}
	for m := r.object(""); m.next(); {
		if !m.holder(&q.Org, &q.Agent) && !q.member(&m) {
			m.unknown()
		}
	}
	r.need(q.Org != "", "org", "")
	r.need(q.Agent != "", "agent", "")
	r.reference(q.Reservation, q.Settle.Key)
	if err := r.finish(); err != nil {
		return OperatorSettle{}, err
	}
	return q, nil
}

// holder reads one member of whose reservation an operator means.
func (m *members) holder(org, agent *string) bool {
	switch string(m.name) {
	case "org":
		*org = m.org()
	case "agent":
		*agent = m.uuid()
	default:
		return false
	}
	return true
}

// OperatorRelease is a release by an operator; Key means the agent's reserve.
type OperatorRelease struct {
	Org   string `json:"org"`
	Agent string `json:"agent"`
	Release
}

// DecodeOperatorRelease reads a request strictly.
func DecodeOperatorRelease(data []byte) (OperatorRelease, *Error) {
	var q OperatorRelease
	r, err := begin(data)
	if err != nil {
		return q, err
	}
	for m := r.object(""); m.next(); {
		if !m.holder(&q.Org, &q.Agent) && !q.member(&m) {
			m.unknown()
		}
	}
	r.need(q.Org != "", "org", "")
	r.need(q.Agent != "", "agent", "")
	r.reference(q.Reservation, q.Release.Key)
	if err := r.finish(); err != nil {
		return OperatorRelease{}, err
	}
	return q, nil
}

// LedgerRead asks for an org's entries after a stream sequence.
type LedgerRead struct {
	Org   string `json:"org"`
	After *int64 `json:"after,omitempty"`
	Limit *int64 `json:"limit,omitempty"`
	// Mirror asks for what the copy in account AUDIT holds.
	Mirror *bool `json:"mirror,omitempty"`
}

// DecodeLedgerRead reads a request strictly.
func DecodeLedgerRead(data []byte) (LedgerRead, *Error) {
	var q LedgerRead
	r, err := begin(data)
	if err != nil {
		return q, err
	}
	for m := r.object(""); m.next(); {
		switch string(m.name) {
		case "org":
			q.Org = m.org()
		case "after":
			q.After = new(m.integer(0, MaxAmount))
		case "limit":
			q.Limit = new(m.integer(1, LedgerLimitMax))
		case "mirror":
			q.Mirror = new(m.boolean())
		default:
			m.unknown()
		}
	}
	r.need(q.Org != "", "org", "")
	if err := r.finish(); err != nil {
		return LedgerRead{}, err
	}
	return q, nil
}

// LedgerLine is one entry as it is exported: Body is the entry's exact bytes.
type LedgerLine struct {
	StreamSeq uint64 `json:"stream_seq"`
	Seq       uint64 `json:"seq"`
	Subject   string `json:"subject"`
	Prev      string `json:"prev"`
	Hash      string `json:"hash"`
	Body      string `json:"body"`
}

// Append writes the line without a line feed.
func (l LedgerLine) Append(dst []byte) []byte { return appendJSON(dst, l) }

// ParseLedgerLine reads one line of an export.
func ParseLedgerLine(data []byte) (LedgerLine, error) {
	var l LedgerLine
	return l, parse(data, &l)
}

// LedgerReadAnswer answers ledger. Last is the stream sequence to go on
// after; End tells that there is nothing behind it yet.
type LedgerReadAnswer struct {
	Entries []LedgerLine `json:"entries"`
	Last    uint64       `json:"last"`
	End     bool         `json:"end"`
}

// Append writes the answer.
func (a LedgerReadAnswer) Append(dst []byte) []byte {
	a.Entries = filled(a.Entries)
	return appendJSON(dst, a)
}

// ParseLedgerReadAnswer reads an answer; the error is an *Error where the
// broker answered one.
func ParseLedgerReadAnswer(data []byte) (LedgerReadAnswer, error) {
	var a LedgerReadAnswer
	return a, parse(data, &a)
}
