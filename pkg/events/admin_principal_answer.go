package events

// Principal is a principal as operators see it.
type Principal struct {
	Org       string   `json:"org"`
	Principal string   `json:"principal"`
	Display   string   `json:"display,omitempty"`
	Managers  []string `json:"managers"` // in byte order
	Rev       int64    `json:"rev"`
	CreatedAt string   `json:"created_at"` // see FormatMillis
}

func (p Principal) filled() Principal {
	p.Managers = filled(p.Managers)
	return p
}

// PrincipalAnswer answers principal_create and principal_set, and, without an
// outcome, principal_show.
type PrincipalAnswer struct {
	Outcome   string    `json:"outcome,omitempty"`
	Principal Principal `json:"principal"`
}

// Append writes the answer.
func (a PrincipalAnswer) Append(dst []byte) []byte {
	a.Principal = a.Principal.filled()
	return appendJSON(dst, a)
}

// ParsePrincipalAnswer reads an answer; the error is an *Error where the
// broker answered one.
func ParsePrincipalAnswer(data []byte) (PrincipalAnswer, error) {
	var a PrincipalAnswer
	return a, parse(data, &a)
}

// PrincipalListAnswer answers principal_list.
type PrincipalListAnswer struct {
	Principals []Principal `json:"principals"`
}

// Append writes the answer.
func (a PrincipalListAnswer) Append(dst []byte) []byte {
	rows := make([]Principal, len(a.Principals))
	for i, p := range a.Principals {
		rows[i] = p.filled()
	}
	return appendJSON(dst, PrincipalListAnswer{Principals: rows})
}

// ParsePrincipalListAnswer reads an answer; the error is an *Error where the
// broker answered one.
func ParsePrincipalListAnswer(data []byte) (PrincipalListAnswer, error) {
	var a PrincipalListAnswer
	return a, parse(data, &a)
}

// PrincipalRow is what was done for a principal on one limit: the sum of the
// moves of all entries that name it.
type PrincipalRow struct {
	Pool     string `json:"pool"`
	Unit     string `json:"unit"`
	Period   string `json:"period"`
	Held     int64  `json:"held"`
	Spent    int64  `json:"spent"`
	Withheld int64  `json:"withheld"`
}

// PrincipalBalanceAnswer answers principal_balance. AsOfSeq is the sequence in
// stream LEDGER up to which entries are counted.
type PrincipalBalanceAnswer struct {
	Org       string         `json:"org"`
	Principal string         `json:"principal"`
	AsOfSeq   uint64         `json:"as_of_seq"`
	Balance   []PrincipalRow `json:"balance"`
}

// Append writes the answer.
func (a PrincipalBalanceAnswer) Append(dst []byte) []byte {
	a.Balance = filled(a.Balance)
	return appendJSON(dst, a)
}

// ParsePrincipalBalanceAnswer reads an answer; the error is an *Error where
// the broker answered one.
func ParsePrincipalBalanceAnswer(data []byte) (PrincipalBalanceAnswer, error) {
	var a PrincipalBalanceAnswer
	return a, parse(data, &a)
}
