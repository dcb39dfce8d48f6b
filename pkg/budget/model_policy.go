package budget

// SetPolicy makes a limit or changes its policy. A limit that was deleted
// under the authority stays gone: only a rebuild may bring it back.
func (m *Model) SetPolicy(nowMS int64, id LimitID, p LimitPolicy) []Entry {
	l, known := m.limits[id]
	if known && l.gone {
		return nil
	}
	if !known {
		l = &modelLimit{}
		m.limits[id] = l
	}
	if known && p.Rev < l.Rev {
		return nil
	}
	mv := Move{LimitID: id, Cap: p.MaxTotal - l.Counters.Cap}
	l.LimitPolicy = p
	l.Counters = l.Counters.Plus(mv)
	return []Entry{m.entry(nowMS, KindPolicyChanged, "", "", []Move{mv})}
}

// Policy reads what was last set for a limit that is there.
func (m *Model) Policy(id LimitID) (LimitPolicy, bool) {
	l := m.limit(id)
	if l == nil {
		return LimitPolicy{}, false
	}
	return l.LimitPolicy, true
}

// LoseLimit is the fault, not a verb: the limit's counters vanish.
func (m *Model) LoseLimit(id LimitID) {
	if l, ok := m.limits[id]; ok {
		l.gone = true
	}
}

// Fence makes everything unavailable until Unfence, as for a rebuild.
func (m *Model) Fence() { m.fenced = true }

// Unfence ends Fence.
func (m *Model) Unfence() { m.fenced = false }
