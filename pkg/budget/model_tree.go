package budget

import "slices"

// RegisterCall is a new agent as the authority meets it: who it is and under
// whom comes from the registry, never from the caller.
type RegisterCall struct {
	Agent                  Agent
	Execution, Fingerprint string // Execution "": a repeat makes another agent
	EndMS                  int64  // 0: it ends with its parent
	// Made are the limits of the pool it is granted, Path those that bound
	// the grant: each of the parent's path in one of its units.
	Made                 []MadeLimit
	Path                 []Limit
	ChildrenMax, TreeMax int64
}

// MadeLimit is a limit that is made together with an agent.
type MadeLimit struct {
	LimitID
	LimitPolicy
}

// Birth is the answer to a RegisterCall.
type Birth struct {
	Agent    string
	Replayed bool
	Refused  AgentRefusal
	Limit    LimitID // of BirthGrant: what the grant is more than remains of
}

// AgentRefusal is why an agent is not registered.
type AgentRefusal string

// Refusals of a registration, in order of precedence.
const (
	BirthRevoked  AgentRefusal = "revoked"
	BirthGrant    AgentRefusal = "budget.caps"
	BirthChildren AgentRefusal = "children"
	BirthTree     AgentRefusal = "tree"
)

// modelAgent is a registered agent; counted until it or, once that is told, an
// ancestor is revoked.
type modelAgent struct {
	Agent
	counted bool
}

type modelRegistration struct {
	agent, fingerprint string
	forgetMS           int64
}

// Register makes an agent, and the pool it is granted: a cap, no money moves.
// Refusals are not remembered.
func (m *Model) Register(nowMS int64, c RegisterCall) (Birth, []Entry, error) {
	if m.fenced {
		return Birth{}, nil, ErrUnavailable
	}
	if known, ok := m.registrations[c.Execution]; ok && nowMS < known.forgetMS {
		if known.fingerprint != c.Fingerprint {
			return Birth{}, nil, ErrKeyReused
		}
		return Birth{Agent: known.agent, Replayed: true}, nil, nil
	}
	if m.isRevoked(nowMS, Agent{Ancestors: c.Agent.Ancestors}) {
		return Birth{Refused: BirthRevoked}, nil, nil
	}
	if limit, refused, err := m.boundsGrant(c); err != nil {
		return Birth{}, nil, err
	} else if refused {
		return Birth{Refused: BirthGrant, Limit: limit}, nil, nil
	}
	parent, inTree := m.counts(nowMS, c.Agent)
	switch {
	case len(c.Agent.Ancestors) > 0 && parent >= c.ChildrenMax:
		return Birth{Refused: BirthChildren}, nil, nil
	case inTree >= c.TreeMax:
		return Birth{Refused: BirthTree}, nil, nil
	}
	return Birth{Agent: c.Agent.ID}, m.born(nowMS, c), nil
}

// boundsGrant names the first limit of the parent's path that has less left
// than is granted in its unit.
func (m *Model) boundsGrant(c RegisterCall) (LimitID, bool, error) {
	if m.stale(c.Path) {
		return LimitID{}, false, ErrStalePolicy
	}
	for _, want := range c.Path {
		if m.limit(want.LimitID) == nil {
			return LimitID{}, false, ErrUnavailable
		}
	}
	for _, want := range c.Path {
		for _, made := range c.Made {
			if made.Unit == want.Unit && made.MaxTotal > m.limit(want.LimitID).Remaining() {
				return want.LimitID, true, nil
			}
		}
	}
	return LimitID{}, false, nil
}

func (m *Model) born(nowMS int64, c RegisterCall) []Entry {
	var entries []Entry
	var moves []Move
	for _, made := range c.Made {
		m.limits[made.LimitID] = &modelLimit{LimitPolicy: made.LimitPolicy, Counters: Counters{Cap: made.MaxTotal}}
		moves = append(moves, Move{LimitID: made.LimitID, Cap: made.MaxTotal})
	}
	if len(moves) > 0 {
		entries = append(entries, m.entry(nowMS, KindPolicyChanged, "", "", moves))
	}
	m.agents[c.Agent.ID] = &modelAgent{c.Agent, true}
	if c.EndMS != 0 {
		m.ends[c.Agent.ID] = c.EndMS
	}
	if c.Execution != "" {
		m.registrations[c.Execution] = modelRegistration{c.Agent.ID, c.Fingerprint, nowMS + ResolvedKept.Milliseconds()}
	}
	return append(entries, m.entry(nowMS, KindAgentRegistered, c.Execution, c.Agent.ID, nil))
}

// counts are the living children of an agent's parent, and the living of its
// tree.
func (m *Model) counts(nowMS int64, a Agent) (siblings, tree int64) {
	if len(a.Ancestors) > 0 {
		siblings = m.living(nowMS, func(b Agent) bool { return parentOf(b) == parentOf(a) })
	}
	return siblings, m.living(nowMS, func(b Agent) bool { return rootOf(b) == rootOf(a) })
}

// living counts who has neither ended by itself nor been taken out.
func (m *Model) living(nowMS int64, which func(Agent) bool) int64 {
	n := int64(0)
	for _, a := range m.agents {
		if a.counted && !m.hasEnded(nowMS, a.ID) && which(a.Agent) {
			n++
		}
	}
	return n
}

func parentOf(a Agent) string {
	if len(a.Ancestors) == 0 {
		return ""
	}
	return a.Ancestors[0]
}

func rootOf(a Agent) string {
	if len(a.Ancestors) == 0 {
		return a.ID
	}
	return a.Ancestors[len(a.Ancestors)-1]
}

// hasEnded looks at one agent alone: revoked, or its time is over.
func (m *Model) hasEnded(nowMS int64, agent string) bool {
	end, ok := m.ends[agent]
	return ok && end <= nowMS
}

// isRevoked: a descendant of who has ended has ended.
func (m *Model) isRevoked(nowMS int64, a Agent) bool {
	return m.hasEnded(nowMS, a.ID) || slices.ContainsFunc(a.Ancestors, func(id string) bool { return m.hasEnded(nowMS, id) })
}

// Revoke bars an agent and, through their ancestors, its whole subtree.
func (m *Model) Revoke(nowMS int64, agent string) []Entry {
	if m.fenced || m.hasEnded(nowMS, agent) {
		return nil
	}
	m.ends[agent] = nowMS
	if a, ok := m.agents[agent]; ok {
		a.counted = false
	}
	return []Entry{m.entry(nowMS, KindAgentRevoked, "", agent, nil)}
}

// Uncount takes the subtree of a revoked agent out of what is counted.
func (m *Model) Uncount(top string) {
	for _, a := range m.agents {
		if a.ID == top || slices.Contains(a.Ancestors, top) {
			a.counted = false
		}
	}
}

// Standing is whether an agent has ended, and how many live right below it and
// in its tree.
func (m *Model) Standing(nowMS int64, a Agent) (ended bool, children, tree int64) {
	children = m.living(nowMS, func(b Agent) bool { return parentOf(b) == a.ID })
	_, tree = m.counts(nowMS, a)
	return m.isRevoked(nowMS, a), children, tree
}

// ForgottenRegistrations lists and forgets those whose key is new again.
func (m *Model) ForgottenRegistrations(nowMS int64) []string {
	var gone []string
	for execution, r := range m.registrations {
		if nowMS >= r.forgetMS {
			delete(m.registrations, execution)
			gone = append(gone, execution)
		}
	}
	slices.Sort(gone)
	return gone
}
