package events

// Bounds of an org's limits on agents.
const (
	DepthLimitMax    int64 = 16
	ChildrenLimitMax int64 = 1_000_000
	TreeLimitMax     int64 = 10_000_000
)

// OrgSet changes an org: only what is named.
type OrgSet struct {
	Org         string  `json:"org"`
	Display     *string `json:"display,omitempty"`
	DepthMax    *int64  `json:"depth_max,omitempty"`
	ChildrenMax *int64  `json:"children_max,omitempty"`
	TreeMax     *int64  `json:"tree_max,omitempty"`
}

// DecodeOrgSet reads a request strictly.
func DecodeOrgSet(data []byte) (OrgSet, *Error) {
	var q OrgSet
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
		case "depth_max":
			q.DepthMax = new(m.integer(0, DepthLimitMax))
		case "children_max":
			q.ChildrenMax = new(m.integer(0, ChildrenLimitMax))
		case "tree_max":
			q.TreeMax = new(m.integer(1, TreeLimitMax))
		default:
			m.unknown()
		}
	}
	r.need(q.Org != "", "org", "")
	if err := r.finish(); err != nil {
		return OrgSet{}, err
	}
	return q, nil
}

// OrgShow asks for an org.
type OrgShow struct {
	Org string `json:"org"`
}

// DecodeOrgShow reads a request strictly.
func DecodeOrgShow(data []byte) (OrgShow, *Error) {
	var q OrgShow
	r, err := begin(data)
	if err != nil {
		return q, err
	}
	for m := r.object(""); m.next(); {
		switch string(m.name) {
		case "org":
			q.Org = m.org()
		default:
			m.unknown()
		}
	}
	r.need(q.Org != "", "org", "")
	if err := r.finish(); err != nil {
		return OrgShow{}, err
	}
	return q, nil
}

// OrgAnswer answers org_set and org_show: the limits that hold now. DepthMax
// is the greatest depth an agent may have; ChildrenMax and TreeMax count
// living agents.
type OrgAnswer struct {
	Org         string `json:"org"`
	Display     string `json:"display,omitempty"`
	CreatedAt   string `json:"created_at"` // see FormatMillis
	DepthMax    int64  `json:"depth_max"`
	ChildrenMax int64  `json:"children_max"`
	TreeMax     int64  `json:"tree_max"`
}

// Append writes the answer.
func (a OrgAnswer) Append(dst []byte) []byte { return appendJSON(dst, a) }

// ParseOrgAnswer reads an answer; the error is an *Error where the broker
// answered one.
func ParseOrgAnswer(data []byte) (OrgAnswer, error) {
	var a OrgAnswer
	return a, parse(data, &a)
}
