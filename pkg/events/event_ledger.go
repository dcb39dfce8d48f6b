package events

// LedgerRefilled tells that the ledger had lost the end of an org's chain, and
// that the same entries were written again.
type LedgerRefilled struct {
	EventHead
	From           uint64 `json:"from"` // first sequence written again
	To             uint64 `json:"to"`   // last
	Hash           string `json:"hash"` // of the last
	AfterStreamSeq uint64 `json:"after_stream_seq"`
}

// LedgerHalted tells that acknowledged entries are gone and nothing is written
// until an operator acts. Stream sequences count entries of every org.
type LedgerHalted struct {
	EventHead
	Reason          string `json:"reason"`
	TailStreamSeq   uint64 `json:"tail_stream_seq"`
	LostToStreamSeq uint64 `json:"lost_to_stream_seq"`
}

// LedgerConfigDrift tells that nothing is written because a stream's
// configuration would let history be lost or changed.
type LedgerConfigDrift struct {
	EventHead
	Stream string `json:"stream"`
	Drift  string `json:"drift"`
}

// Append writes the event.
func (v LedgerRefilled) Append(dst []byte) []byte { return appendJSON(dst, v) }

// Append writes the event.
func (v LedgerHalted) Append(dst []byte) []byte { return appendJSON(dst, v) }

// Append writes the event.
func (v LedgerConfigDrift) Append(dst []byte) []byte { return appendJSON(dst, v) }
