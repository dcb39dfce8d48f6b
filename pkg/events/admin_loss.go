package events

// OutcomeLossAccepted is the outcome of ledger_accept_loss.
const OutcomeLossAccepted = "loss_accepted"

// AcceptLossAnswer answers ledger_accept_loss: where the ledger goes on, up to
// where it was, and what was booked for each org.
type AcceptLossAnswer struct {
	Outcome         string    `json:"outcome"`
	TailStreamSeq   uint64    `json:"tail_stream_seq"`
	LostToStreamSeq uint64    `json:"lost_to_stream_seq"`
	Orgs            []LossOrg `json:"orgs"`
	Hint            string    `json:"hint,omitempty"`
}

// LossOrg is one org's gap: the last sequence that is there, and what the
// counters had moved that no entry says, over all limits.
type LossOrg struct {
	Org      string `json:"org"`
	AfterSeq uint64 `json:"after_seq"`
	Limits   int64  `json:"limits"`              // how many were not what the ledger says
	InMirror uint64 `json:"in_mirror,omitempty"` // last sequence that the mirror still has, where it has more
}

// Append writes the answer.
func (a AcceptLossAnswer) Append(dst []byte) []byte {
	a.Outcome, a.Orgs = OutcomeLossAccepted, filled(a.Orgs)
	return appendJSON(dst, a)
}

// ParseAcceptLossAnswer reads an answer; the error is an *Error where the
// broker answered one.
func ParseAcceptLossAnswer(data []byte) (AcceptLossAnswer, error) {
	var a AcceptLossAnswer
	return a, parse(data, &a)
}
