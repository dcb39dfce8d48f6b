package events

// Verdicts of a reconciliation.
const (
	VerdictOK    = "ok"
	VerdictDrift = "drift"
)

// OrgFilter asks for reconcile or rebuild of one org, or of all.
type OrgFilter struct {
	Org *string `json:"org,omitempty"`
}

// DecodeOrgFilter reads a request strictly; an empty body is {}.
func DecodeOrgFilter(data []byte) (OrgFilter, *Error) {
	var q OrgFilter
	r, err := begin(optionalBody(data))
	if err != nil {
		return q, err
	}
	for m := r.object(""); m.next(); {
		switch string(m.name) {
		case "org":
			q.Org = new(m.org())
		default:
			m.unknown()
		}
	}
	if err := r.finish(); err != nil {
		return OrgFilter{}, err
	}
	return q, nil
}

// DriftRow is one counter that the ledger does not explain. Cause is set
// where it is known, such as pool_missing.
type DriftRow struct {
	Pool     string `json:"pool"`
	Unit     string `json:"unit"`
	Period   string `json:"period"`
	Counter  string `json:"counter"`
	Expected int64  `json:"expected"`
	Actual   int64  `json:"actual"`
	Drift    int64  `json:"drift"`
	Cause    string `json:"cause,omitempty"`
}

// DriftExplained counts a cause of the published tolerance.
type DriftExplained struct {
	Cause   string           `json:"cause"`
	Count   int64            `json:"count"`
	Amounts map[string]int64 `json:"amounts"`
}

// explained keeps empty amounts from being written as null.
func explained(causes []DriftExplained) []DriftExplained {
	out := make([]DriftExplained, len(causes))
	for i, c := range causes {
		if c.Amounts == nil {
			c.Amounts = map[string]int64{}
		}
		out[i] = c
	}
	return out
}

// OrgReport is the reconciliation of one org at one cut.
type OrgReport struct {
	Org       string           `json:"org"`
	Cut       string           `json:"cut"`
	Drift     []DriftRow       `json:"drift"`
	Explained []DriftExplained `json:"explained"`
}

// ReconcileAnswer answers reconcile.
type ReconcileAnswer struct {
	Verdict string      `json:"verdict"`
	Orgs    []OrgReport `json:"orgs"`
}

// Append writes the answer.
func (a ReconcileAnswer) Append(dst []byte) []byte {
	orgs := make([]OrgReport, len(a.Orgs))
	for i, o := range a.Orgs {
		o.Drift, o.Explained = filled(o.Drift), explained(o.Explained)
		orgs[i] = o
	}
	return appendJSON(dst, ReconcileAnswer{Verdict: a.Verdict, Orgs: orgs})
}

// ParseReconcileAnswer reads an answer; the error is an *Error where the
// broker answered one.
func ParseReconcileAnswer(data []byte) (ReconcileAnswer, error) {
	var a ReconcileAnswer
	return a, parse(data, &a)
}

// RebuildAnswer answers rebuild.
type RebuildAnswer struct {
	Outcome    string   `json:"outcome"`
	Partitions []int    `json:"partitions"`
	Entries    int64    `json:"entries"`
	Orgs       []string `json:"orgs"`
}

// Append writes the answer.
func (a RebuildAnswer) Append(dst []byte) []byte {
	a.Outcome = OutcomeRebuilt
	a.Partitions, a.Orgs = filled(a.Partitions), filled(a.Orgs)
	return appendJSON(dst, a)
}

// ParseRebuildAnswer reads an answer; the error is an *Error where the broker
// answered one.
func ParseRebuildAnswer(data []byte) (RebuildAnswer, error) {
	var a RebuildAnswer
	return a, parse(data, &a)
}
