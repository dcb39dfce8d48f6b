package events

import "slices"

// PrincipalCreate makes a principal: somebody agents work for who operates
// none. Making it again with the same content changes nothing.
type PrincipalCreate struct {
	Org       string   `json:"org"`
	Principal string   `json:"principal"`
	Display   *string  `json:"display,omitempty"`
	Managers  []string `json:"managers,omitempty"`
}

// DecodePrincipalCreate reads a request strictly.
func DecodePrincipalCreate(data []byte) (PrincipalCreate, *Error) {
	var q PrincipalCreate
	r, err := begin(data)
	if err != nil {
		return q, err
	}
	for m := r.object(""); m.next(); {
		switch string(m.name) {
		case "org":
			q.Org = m.org()
		case "principal":
			q.Principal = m.onBehalfOf()
		case "display":
			q.Display = new(m.nameOf())
		case "managers":
			q.Managers = m.managers()
		default:
			m.unknown()
		}
	}
	r.need(q.Org != "", "org", "")
	r.need(q.Principal != "", "principal", "")
	if err := r.finish(); err != nil {
		return PrincipalCreate{}, err
	}
	return q, nil
}

// managers reads a list of agents, each once.
func (m *members) managers() []string {
	r, path := m.r, m.field()
	var out []string
	for a := r.array(path); a.next(); {
		if len(out) == MaxManagers {
			r.fail(faultMeaning, path, "at most 64 agents", "")
		}
		id := m.uuid()
		if r.ok() && slices.Contains(out, id) {
			r.fail(faultMeaning, path, "the same agent twice", "")
		}
		out = append(out, id)
	}
	return out
}

// PrincipalSet changes what it names.
type PrincipalSet struct {
	Org       string   `json:"org"`
	Principal string   `json:"principal"`
	Add       []string `json:"add,omitempty"`
	Remove    []string `json:"remove,omitempty"`
	Display   *string  `json:"display,omitempty"`
}

// DecodePrincipalSet reads a request strictly.
func DecodePrincipalSet(data []byte) (PrincipalSet, *Error) {
	var q PrincipalSet
	r, err := begin(data)
	if err != nil {
		return q, err
	}
	for m := r.object(""); m.next(); {
		switch string(m.name) {
		case "org":
			q.Org = m.org()
		case "principal":
			q.Principal = m.onBehalfOf()
		case "add":
			q.Add = m.managers()
		case "remove":
			q.Remove = m.managers()
		case "display":
			q.Display = new(m.nameOf())
		default:
			m.unknown()
		}
	}
	r.need(q.Org != "", "org", "")
	r.need(q.Principal != "", "principal", "")
	if r.ok() && slices.ContainsFunc(q.Add, func(id string) bool { return slices.Contains(q.Remove, id) }) {
		r.fail(faultMeaning, "remove", "names an agent that add names too", "")
	}
	if err := r.finish(); err != nil {
		return PrincipalSet{}, err
	}
	return q, nil
}

// PrincipalList asks for an org's principals.
type PrincipalList struct {
	Org string `json:"org"`
}

// DecodePrincipalList reads a request strictly.
func DecodePrincipalList(data []byte) (PrincipalList, *Error) {
	q, err := DecodeOrgShow(data)
	return PrincipalList(q), err
}

// PrincipalName asks for principal_show or principal_balance.
type PrincipalName struct {
	Org       string `json:"org"`
	Principal string `json:"principal"`
}

// DecodePrincipalName reads a request strictly.
func DecodePrincipalName(data []byte) (PrincipalName, *Error) {
	var q PrincipalName
	r, err := begin(data)
	if err != nil {
		return q, err
	}
	for m := r.object(""); m.next(); {
		switch string(m.name) {
		case "org":
			q.Org = m.org()
		case "principal":
			q.Principal = m.onBehalfOf()
		default:
			m.unknown()
		}
	}
	r.need(q.Org != "", "org", "")
	r.need(q.Principal != "", "principal", "")
	if err := r.finish(); err != nil {
		return PrincipalName{}, err
	}
	return q, nil
}
