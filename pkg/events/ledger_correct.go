package events

// LedgerCorrect says of an entry that stands what is wrong with it. Seq is the
// entry's sequence within its org.
type LedgerCorrect struct {
	Org      string           `json:"org"`
	Seq      int64            `json:"seq"`
	Hash     *string          `json:"hash,omitempty"`
	Kind     *string          `json:"kind,omitempty"`
	Amounts  map[string]int64 `json:"amounts"`
	Reason   string           `json:"reason"`
	Evidence *string          `json:"evidence,omitempty"`
}

// DecodeLedgerCorrect reads a request strictly.
func DecodeLedgerCorrect(data []byte) (LedgerCorrect, *Error) {
	var q LedgerCorrect
	r, err := begin(data)
	if err != nil {
		return q, err
	}
	for m := r.object(""); m.next(); {
		switch string(m.name) {
		case "org":
			q.Org = m.org()
		case "seq":
			q.Seq = m.integer(1, MaxAmount)
		case "hash":
			q.Hash = new(m.hash())
		case "kind":
			q.Kind = new(m.oneOf(string(KindCorrected), string(KindRefunded), string(KindDisputed)))
		case "amounts":
			q.Amounts = m.amounts(-MaxAmount)
		case "reason":
			q.Reason = m.r.text(m.field(), 1, MaxReasonBytes)
		case "evidence":
			q.Evidence = new(m.hash())
		default:
			m.unknown()
		}
	}
	r.need(q.Org != "", "org", "")
	r.need(q.Seq != 0, "seq", "of the entry that is corrected, as ledger list shows it")
	r.need(q.Amounts != nil, "amounts", `such as {"amounts":{"usd_microcents":-250000}}`)
	r.need(q.Reason != "", "reason", "")
	r.correction(&q)
	if err := r.finish(); err != nil {
		return LedgerCorrect{}, err
	}
	return q, nil
}

// correction checks the signs, and that the reason is one line.
func (r *reader) correction(q *LedgerCorrect) {
	if e := CheckReason(q.Reason); e != nil {
		r.fail(faultMeaning, "reason", "at most 256 bytes of UTF-8 without control characters", "")
	}
	for unit, n := range q.Amounts {
		switch {
		case n == 0:
			r.fail(faultMeaning, "amounts."+unit, "0 corrects nothing", "")
		case n < 0 && q.KindOf() != KindCorrected:
			r.fail(faultMeaning, "amounts."+unit, "what is refunded or disputed is above 0", "")
		}
	}
}

// KindOf is the kind of the entry that is asked for.
func (q LedgerCorrect) KindOf() LedgerKind {
	if q.Kind == nil {
		return KindCorrected
	}
	return LedgerKind(*q.Kind)
}

// Fingerprint is equal for equal content, as sent.
func (q LedgerCorrect) Fingerprint() string {
	var room [512]byte
	d := digest{b: room[:0]}
	d.name(AdminLedgerCorrect)
	d.text("org", &q.Org)
	d.number("seq", &q.Seq)
	d.text("hash", q.Hash)
	d.text("kind", q.Kind)
	d.amounts("amounts", q.Amounts)
	d.text("reason", &q.Reason)
	d.text("evidence", q.Evidence)
	return d.sum()
}

// LedgerCorrectAnswer tells what was done. Seq and Hash are those of the entry
// that is corrected; ID is the execution of the new one.
type LedgerCorrectAnswer struct {
	Outcome     string           `json:"outcome"`
	Org         string           `json:"org"`
	Seq         uint64           `json:"seq"`
	Hash        string           `json:"hash"`
	Moves       []CorrectionMove `json:"moves"`
	PoolMissing bool             `json:"pool_missing,omitempty"`
	ID          string           `json:"id"`
}

// CorrectionMove is what a correction did to one limit.
type CorrectionMove struct {
	Pool    string `json:"pool"`
	Unit    string `json:"unit"`
	Period  string `json:"period"`
	Spent   int64  `json:"spent"`
	Missing bool   `json:"missing,omitempty"`
}

// Append writes the answer.
func (a LedgerCorrectAnswer) Append(dst []byte) []byte {
	a.Moves = filled(a.Moves)
	return appendJSON(dst, a)
}

// ParseLedgerCorrectAnswer reads an answer; the error is an *Error where the
// broker answered one.
func ParseLedgerCorrectAnswer(data []byte) (LedgerCorrectAnswer, error) {
	var a LedgerCorrectAnswer
	return a, parse(data, &a)
}
