package events

// AgentRegister makes an agent, as an operator.
type AgentRegister struct {
	Org    string  `json:"org"`
	Name   string  `json:"name"`
	Pool   string  `json:"pool"`
	Parent *string `json:"parent,omitempty"`
	TTLMS  *int64  `json:"ttl_ms,omitempty"`
}

// DecodeAgentRegister reads a request strictly.
func DecodeAgentRegister(data []byte) (AgentRegister, *Error) {
	var q AgentRegister
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
		case "pool":
			q.Pool = m.nameOf()
		case "parent":
			q.Parent = new(m.uuid())
		case "ttl_ms":
			q.TTLMS = new(m.integer(TTLMinMS, AgentTTLMaxMS))
		default:
			m.unknown()
		}
	}
	r.need(q.Org != "", "org", "")
	r.need(q.Name != "", "name", "")
	r.need(q.Pool != "", "pool", "")
	if err := r.finish(); err != nil {
		return AgentRegister{}, err
	}
	return q, nil
}

// AgentRegisterAnswer is the new agent with its token, which is shown once.
type AgentRegisterAnswer struct {
	Agent  string `json:"agent"`
	Org    string `json:"org"`
	Name   string `json:"name"`
	Token  string `json:"token"`
	Pool   string `json:"pool"`
	Parent string `json:"parent,omitempty"`
	Root   string `json:"root"`
	Depth  int    `json:"depth"`
}

// Append writes the answer.
func (a AgentRegisterAnswer) Append(dst []byte) []byte { return appendJSON(dst, a) }

// ParseAgentRegisterAnswer reads an answer; the error is an *Error where the
// broker answered one.
func ParseAgentRegisterAnswer(data []byte) (AgentRegisterAnswer, error) {
	var a AgentRegisterAnswer
	return a, parse(data, &a)
}

// AgentList asks for an org's agents, oldest first: those after the cursor, and
// of one agent's tree where Root is given.
type AgentList struct {
	Org    string  `json:"org"`
	Root   *string `json:"root,omitempty"`
	Limit  *int64  `json:"limit,omitempty"` // default 1,000
	Cursor *string `json:"cursor,omitempty"`
}

// DecodeAgentList reads a request strictly.
func DecodeAgentList(data []byte) (AgentList, *Error) {
	var q AgentList
	r, err := begin(data)
	if err != nil {
		return q, err
	}
	for m := r.object(""); m.next(); {
		switch string(m.name) {
		case "org":
			q.Org = m.org()
		case "root":
			q.Root = new(m.uuid())
		case "limit":
			q.Limit = new(m.integer(1, ListLimitMax))
		case "cursor":
			q.Cursor = new(m.uuid())
		default:
			m.unknown()
		}
	}
	r.need(q.Org != "", "org", "")
	if err := r.finish(); err != nil {
		return AgentList{}, err
	}
	return q, nil
}

// AgentRow is one agent in a list. TokenHint is a recognisable part of its
// token, never the token.
type AgentRow struct {
	Agent     string `json:"agent"`
	Org       string `json:"org"`
	Name      string `json:"name"`
	Pool      string `json:"pool"`
	Parent    string `json:"parent,omitempty"`
	Root      string `json:"root"`
	Depth     int    `json:"depth"`
	Revoked   bool   `json:"revoked"`
	CreatedAt string `json:"created_at"` // see FormatMillis
	ExpiresAt string `json:"expires_at,omitempty"`
	TokenHint string `json:"token_hint"`
}

// AgentShow asks for one agent.
type AgentShow struct {
	Org   string `json:"org"`
	Agent string `json:"agent"`
}

// DecodeAgentShow reads a request strictly.
func DecodeAgentShow(data []byte) (AgentShow, *Error) {
	var q AgentShow
	r, err := begin(data)
	if err != nil {
		return q, err
	}
	for m := r.object(""); m.next(); {
		switch string(m.name) {
		case "org":
			q.Org = m.org()
		case "agent":
			q.Agent = m.uuid()
		default:
			m.unknown()
		}
	}
	r.need(q.Org != "", "org", "")
	r.need(q.Agent != "", "agent", "")
	if err := r.finish(); err != nil {
		return AgentShow{}, err
	}
	return q, nil
}

// AgentShowAnswer is one agent with what counts against the org's limits:
// its living children, and the living agents of its whole tree.
type AgentShowAnswer struct {
	AgentRow
	Purpose        string   `json:"purpose,omitempty"`
	Ancestors      []string `json:"ancestors"` // parent first, root last
	LivingChildren int64    `json:"living_children"`
	LivingTree     int64    `json:"living_tree"`
	// OldTokenUntil is when the token before the last rotation ends.
	OldTokenUntil string `json:"old_token_until,omitempty"`
}

// Append writes the answer.
func (a AgentShowAnswer) Append(dst []byte) []byte {
	a.Ancestors = filled(a.Ancestors)
	return appendJSON(dst, a)
}

// ParseAgentShowAnswer reads an answer; the error is an *Error where the
// broker answered one.
func ParseAgentShowAnswer(data []byte) (AgentShowAnswer, error) {
	var a AgentShowAnswer
	return a, parse(data, &a)
}

// AgentListAnswer answers agent_list; Cursor is there where more follow.
type AgentListAnswer struct {
	Agents []AgentRow `json:"agents"`
	Cursor string     `json:"cursor,omitempty"`
}

// Append writes the answer.
func (a AgentListAnswer) Append(dst []byte) []byte {
	a.Agents = filled(a.Agents)
	return appendJSON(dst, a)
}

// ParseAgentListAnswer reads an answer; the error is an *Error where the
// broker answered one.
func ParseAgentListAnswer(data []byte) (AgentListAnswer, error) {
	var a AgentListAnswer
	return a, parse(data, &a)
}

// AgentRevoke ends an agent with its descendants, as an operator. Its answer
// is a [RevokeAnswer].
type AgentRevoke struct {
	Org   string  `json:"org"`
	Agent string  `json:"agent"`
	Holds *string `json:"holds,omitempty"`
}

// DecodeAgentRevoke reads a request strictly.
func DecodeAgentRevoke(data []byte) (AgentRevoke, *Error) {
	var q AgentRevoke
	r, err := begin(data)
	if err != nil {
		return q, err
	}
	for m := r.object(""); m.next(); {
		switch string(m.name) {
		case "org":
			q.Org = m.org()
		case "agent":
			q.Agent = m.uuid()
		case "holds":
			q.Holds = new(m.oneOf(HoldsKeep, HoldsRelease))
		default:
			m.unknown()
		}
	}
	r.need(q.Org != "", "org", "")
	r.need(q.Agent != "", "agent", "")
	if err := r.finish(); err != nil {
		return AgentRevoke{}, err
	}
	return q, nil
}

// AgentRotate gives an agent a new token and ends the old one: at once, or
// after OverlapMS.
type AgentRotate struct {
	Org       string `json:"org"`
	Agent     string `json:"agent"`
	OverlapMS *int64 `json:"overlap_ms,omitempty"`
}

// DecodeAgentRotate reads a request strictly.
func DecodeAgentRotate(data []byte) (AgentRotate, *Error) {
	var q AgentRotate
	r, err := begin(data)
	if err != nil {
		return q, err
	}
	for m := r.object(""); m.next(); {
		switch string(m.name) {
		case "org":
			q.Org = m.org()
		case "agent":
			q.Agent = m.uuid()
		case "overlap_ms":
			q.OverlapMS = new(m.integer(0, OverlapMaxMS))
		default:
			m.unknown()
		}
	}
	r.need(q.Org != "", "org", "")
	r.need(q.Agent != "", "agent", "")
	if err := r.finish(); err != nil {
		return AgentRotate{}, err
	}
	return q, nil
}

// AgentRotateAnswer is the agent with its new token, which is shown once.
type AgentRotateAnswer struct {
	Agent string `json:"agent"`
	Org   string `json:"org"`
	Name  string `json:"name"`
	Token string `json:"token"`
	Pool  string `json:"pool"`
}

// Append writes the answer.
func (a AgentRotateAnswer) Append(dst []byte) []byte { return appendJSON(dst, a) }

// ParseAgentRotateAnswer reads an answer; the error is an *Error where the
// broker answered one.
func ParseAgentRotateAnswer(data []byte) (AgentRotateAnswer, error) {
	var a AgentRotateAnswer
	return a, parse(data, &a)
}
