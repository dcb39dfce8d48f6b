package events

// What becomes of a revoked agent's holds.
const (
	HoldsKeep    = "keep"
	HoldsRelease = "release"
)

// Revoke ends an agent of the caller's own subtree, with its descendants.
type Revoke struct {
	Agent string  `json:"agent"`
	Holds *string `json:"holds,omitempty"`
}

// DecodeRevoke reads a request strictly.
func DecodeRevoke(data []byte) (Revoke, *Error) {
	var q Revoke
	r, err := begin(data)
	if err != nil {
		return q, err
	}
	for m := r.object(""); m.next(); {
		switch string(m.name) {
		case "agent":
			q.Agent = m.uuid()
		case "holds":
			q.Holds = new(m.oneOf(HoldsKeep, HoldsRelease))
		default:
			m.unknown()
		}
	}
	r.need(q.Agent != "", "agent", "")
	if err := r.finish(); err != nil {
		return Revoke{}, err
	}
	return q, nil
}

// Fingerprint is equal for equal content, as sent.
func (q Revoke) Fingerprint() string {
	var room [512]byte
	d := digest{b: room[:0]}
	d.name(VerbRevoke)
	d.text("agent", &q.Agent)
	d.text("holds", q.Holds)
	return d.sum()
}

// RevokeAnswer counts the agents that are revoked now, descendants included.
type RevokeAnswer struct {
	Outcome string `json:"outcome"`
	Agents  int    `json:"agents"`
}

// Append writes the answer.
func (a RevokeAnswer) Append(dst []byte) []byte {
	return append(appendInt(appendOutcome(dst, OutcomeRevoked), "agents", int64(a.Agents)), '}')
}

// ParseRevokeAnswer reads an answer; the error is an *Error where the broker
// answered one.
func ParseRevokeAnswer(data []byte) (RevokeAnswer, error) {
	var a RevokeAnswer
	return a, parse(data, &a)
}
