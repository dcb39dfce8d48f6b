package events

// EvidencePutAnswer answers evidence_put: partial until the last part is there,
// then stored with what the file was found to be. Fresh tells that it was not
// there before; where it was, the name is the one it was first given.
type EvidencePutAnswer struct {
	Outcome  string `json:"outcome"`
	Evidence string `json:"evidence"`
	Fresh    bool   `json:"fresh"`
	Name     string `json:"name,omitempty"`
	Type     string `json:"type,omitempty"`
	Size     int64  `json:"size,omitempty"`
}

// Append writes the answer.
func (a EvidencePutAnswer) Append(dst []byte) []byte { return appendJSON(dst, a) }

// ParseEvidencePutAnswer reads an answer; the error is an *Error where the
// broker answered one.
func ParseEvidencePutAnswer(data []byte) (EvidencePutAnswer, error) {
	var a EvidencePutAnswer
	return a, parse(data, &a)
}

// EvidenceRow describes a file. Evidence is the SHA-256 of its content, Type
// what the content was found to be.
type EvidenceRow struct {
	Evidence string `json:"evidence"`
	Name     string `json:"name,omitempty"`
	Type     string `json:"type"`
	Size     int64  `json:"size"`
	StoredAt string `json:"stored_at"` // see FormatMillis
}

// EvidenceGetAnswer answers evidence_get.
type EvidenceGetAnswer struct {
	EvidenceRow
	Part  int64  `json:"part"`
	Parts int64  `json:"parts"`
	Data  []byte `json:"data"`
}

// Append writes the answer.
func (a EvidenceGetAnswer) Append(dst []byte) []byte {
	a.Data = filled(a.Data)
	return appendJSON(dst, a)
}

// ParseEvidenceGetAnswer reads an answer; the error is an *Error where the
// broker answered one.
func ParseEvidenceGetAnswer(data []byte) (EvidenceGetAnswer, error) {
	var a EvidenceGetAnswer
	return a, parse(data, &a)
}

// EvidenceListAnswer answers evidence_list; Cursor is there where more follow.
type EvidenceListAnswer struct {
	Evidence []EvidenceRow `json:"evidence"`
	Cursor   string        `json:"cursor,omitempty"`
}

// Append writes the answer.
func (a EvidenceListAnswer) Append(dst []byte) []byte {
	a.Evidence = filled(a.Evidence)
	return appendJSON(dst, a)
}

// ParseEvidenceListAnswer reads an answer; the error is an *Error where the
// broker answered one.
func ParseEvidenceListAnswer(data []byte) (EvidenceListAnswer, error) {
	var a EvidenceListAnswer
	return a, parse(data, &a)
}
