package events

// LedgerCheckpoint asks for an org's newest signed checkpoint; with now, for
// one of the chain as it is now.
type LedgerCheckpoint struct {
	Org string `json:"org"`
	Now bool   `json:"now,omitempty"`
}

// DecodeLedgerCheckpoint reads a request strictly.
func DecodeLedgerCheckpoint(data []byte) (LedgerCheckpoint, *Error) {
	var q LedgerCheckpoint
	r, err := begin(data)
	if err != nil {
		return q, err
	}
	for m := r.object(""); m.next(); {
		switch string(m.name) {
		case "org":
			q.Org = m.org()
		case "now":
			q.Now = m.boolean()
		default:
			m.unknown()
		}
	}
	r.need(q.Org != "", "org", "")
	if err := r.finish(); err != nil {
		return LedgerCheckpoint{}, err
	}
	return q, nil
}

// LedgerCheckpointAnswer answers ledger_checkpoint: the signed note, and what
// it says.
type LedgerCheckpointAnswer struct {
	Org        string `json:"org"`
	Checkpoint string `json:"checkpoint"`
	Count      uint64 `json:"count"`
	Head       string `json:"head"` // hex, as entries carry it
	Time       string `json:"time"`
}

// Append writes the answer.
func (a LedgerCheckpointAnswer) Append(dst []byte) []byte { return appendJSON(dst, a) }

// ParseLedgerCheckpointAnswer reads an answer; the error is an *Error where
// the broker answered one.
func ParseLedgerCheckpointAnswer(data []byte) (LedgerCheckpointAnswer, error) {
	var a LedgerCheckpointAnswer
	return a, parse(data, &a)
}
