package events

// ReportFile is a report in one format.
type ReportFile struct {
	Format string `json:"format"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// ReportInfo describes a report that is stored. AsOfSeq and Hash are the last
// entry it counts, in the org's chain.
type ReportInfo struct {
	Report  string       `json:"report"`
	Org     string       `json:"org"`
	From    string       `json:"from"`
	To      string       `json:"to"`
	Zone    string       `json:"zone"`
	Entries int64        `json:"entries"`
	AsOfSeq uint64       `json:"as_of_seq"`
	Hash    string       `json:"hash"`
	Files   []ReportFile `json:"files"`
}

func (i ReportInfo) filled() ReportInfo {
	i.Files = filled(i.Files)
	return i
}

// ReportAnswer answers report_make. A report is never written twice: where it
// was there already, the answer is the same.
type ReportAnswer struct {
	Outcome string     `json:"outcome"`
	Report  ReportInfo `json:"report"`
}

// Append writes the answer.
func (a ReportAnswer) Append(dst []byte) []byte {
	a.Outcome = OutcomeCreated
	a.Report = a.Report.filled()
	return appendJSON(dst, a)
}

// ParseReportAnswer reads an answer; the error is an *Error where the broker
// answered one.
func ParseReportAnswer(data []byte) (ReportAnswer, error) {
	var a ReportAnswer
	return a, parse(data, &a)
}

// ReportListAnswer answers report_list. End is true where no report follows.
type ReportListAnswer struct {
	Reports []ReportInfo `json:"reports"`
	End     bool         `json:"end"`
}

// Append writes the answer.
func (a ReportListAnswer) Append(dst []byte) []byte {
	rows := make([]ReportInfo, len(a.Reports))
	for i, r := range a.Reports {
		rows[i] = r.filled()
	}
	return appendJSON(dst, ReportListAnswer{rows, a.End})
}

// ParseReportListAnswer reads an answer; the error is an *Error where the
// broker answered one.
func ParseReportListAnswer(data []byte) (ReportListAnswer, error) {
	var a ReportListAnswer
	return a, parse(data, &a)
}

// ReportGetAnswer answers report_get with one of Parts parts, in base64. The
// hash is that of the whole.
type ReportGetAnswer struct {
	Org     string `json:"org"`
	Report  string `json:"report"`
	Format  string `json:"format"`
	Part    int64  `json:"part"`
	Parts   int64  `json:"parts"`
	Size    int64  `json:"size"`
	SHA256  string `json:"sha256"`
	Content []byte `json:"content"`
}

// Append writes the answer.
func (a ReportGetAnswer) Append(dst []byte) []byte {
	a.Content = filled(a.Content)
	return appendJSON(dst, a)
}

// ParseReportGetAnswer reads an answer; the error is an *Error where the broker
// answered one.
func ParseReportGetAnswer(data []byte) (ReportGetAnswer, error) {
	var a ReportGetAnswer
	return a, parse(data, &a)
}

// ReportReady tells that a report is stored and can be fetched.
type ReportReady struct {
	EventHead
	Report  string       `json:"report"`
	From    string       `json:"from"`
	To      string       `json:"to"`
	Zone    string       `json:"zone"`
	AsOfSeq uint64       `json:"as_of_seq"`
	Hash    string       `json:"hash"` // hash of that entry
	Files   []ReportFile `json:"files"`
}

// Append writes the event.
func (v ReportReady) Append(dst []byte) []byte {
	v.Files = filled(v.Files)
	return appendJSON(dst, v)
}
