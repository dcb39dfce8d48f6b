package events

// AdminAdd makes an admin of an org, or gives the one of this name and role a
// fresh token: a repetition after a lost answer leaves no second admin behind.
// Role is RoleAdmin where it is absent.
type AdminAdd struct {
	Org  string  `json:"org"`
	Name string  `json:"name"`
	Role *string `json:"role,omitempty"`
}

// DecodeAdminAdd reads a request strictly.
func DecodeAdminAdd(data []byte) (AdminAdd, *Error) {
	var q AdminAdd
	r, err := begin(data)
	if err != nil {
		return q, err
	}
	for m := r.object(""); m.next(); {
		switch string(m.name) {
		case "org":
			q.Org = m.org()
		case "name":
			q.Name = m.nameOf()
		case "role":
			q.Role = new(m.oneOf(Roles()...))
		default:
			m.unknown()
		}
	}
	r.need(q.Org != "", "org", "")
	r.need(q.Name != "", "name", "")
	if err := r.finish(); err != nil {
		return AdminAdd{}, err
	}
	return q, nil
}

// AdminTokenAnswer is an admin with its token, which is shown once: the answer
// of admin_add and admin_rotate.
type AdminTokenAnswer struct {
	Admin string `json:"admin"`
	Org   string `json:"org"`
	Name  string `json:"name"`
	Role  string `json:"role"`
	Token string `json:"token"`
}

// Append writes the answer.
func (a AdminTokenAnswer) Append(dst []byte) []byte { return appendJSON(dst, a) }

// ParseAdminTokenAnswer reads an answer; the error is an *Error where the
// broker answered one.
func ParseAdminTokenAnswer(data []byte) (AdminTokenAnswer, error) {
	var a AdminTokenAnswer
	return a, parse(data, &a)
}

// AdminList asks for an org's admins.
type AdminList struct {
	Org string `json:"org"`
}

// DecodeAdminList reads a request strictly.
func DecodeAdminList(data []byte) (AdminList, *Error) {
	var q AdminList
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
		return AdminList{}, err
	}
	return q, nil
}

// AdminRow is one admin. A removed one stays in the list, not active.
type AdminRow struct {
	Admin     string `json:"admin"`
	Org       string `json:"org"`
	Name      string `json:"name"`
	Role      string `json:"role"`
	Active    bool   `json:"active"`
	CreatedAt string `json:"created_at"` // see FormatMillis
	TokenHint string `json:"token_hint"`
}

// AdminListAnswer answers admin_list.
type AdminListAnswer struct {
	Admins []AdminRow `json:"admins"`
}

// Append writes the answer.
func (a AdminListAnswer) Append(dst []byte) []byte {
	a.Admins = filled(a.Admins)
	return appendJSON(dst, a)
}

// ParseAdminListAnswer reads an answer; the error is an *Error where the
// broker answered one.
func ParseAdminListAnswer(data []byte) (AdminListAnswer, error) {
	var a AdminListAnswer
	return a, parse(data, &a)
}

// AdminSet promotes or demotes an admin. The last active admin of an org
// cannot be demoted: that is limit_exceeded with field admin.
type AdminSet struct {
	Org   string `json:"org"`
	Admin string `json:"admin"`
	Role  string `json:"role"`
}

// DecodeAdminSet reads a request strictly.
func DecodeAdminSet(data []byte) (AdminSet, *Error) {
	var q AdminSet
	r, err := begin(data)
	if err != nil {
		return q, err
	}
	for m := r.object(""); m.next(); {
		switch string(m.name) {
		case "org":
			q.Org = m.org()
		case "admin":
			q.Admin = m.uuid()
		case "role":
			q.Role = m.oneOf(Roles()...)
		default:
			m.unknown()
		}
	}
	r.need(q.Org != "", "org", "")
	r.need(q.Admin != "", "admin", "")
	r.need(q.Role != "", "role", "")
	if err := r.finish(); err != nil {
		return AdminSet{}, err
	}
	return q, nil
}

// AdminName names an admin: admin_remove, which ends it, and admin_rotate,
// which gives it a new token. The last active admin of an org cannot be
// removed: that is limit_exceeded with field admin.
type AdminName struct {
	Org   string `json:"org"`
	Admin string `json:"admin"`
}

// DecodeAdminName reads a request strictly.
func DecodeAdminName(data []byte) (AdminName, *Error) {
	var q AdminName
	r, err := begin(data)
	if err != nil {
		return q, err
	}
	for m := r.object(""); m.next(); {
		switch string(m.name) {
		case "org":
			q.Org = m.org()
		case "admin":
			q.Admin = m.uuid()
		default:
			m.unknown()
		}
	}
	r.need(q.Org != "", "org", "")
	r.need(q.Admin != "", "admin", "")
	if err := r.finish(); err != nil {
		return AdminName{}, err
	}
	return q, nil
}

// AdminAnswer is an admin as it is now: the answer of admin_set and
// admin_remove.
type AdminAnswer struct {
	Outcome string `json:"outcome"`
	AdminRow
}

// Append writes the answer.
func (a AdminAnswer) Append(dst []byte) []byte { return appendJSON(dst, a) }

// ParseAdminAnswer reads an answer; the error is an *Error where the broker
// answered one.
func ParseAdminAnswer(data []byte) (AdminAnswer, error) {
	var a AdminAnswer
	return a, parse(data, &a)
}
