package redisx

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"tallystick/pkg/budget"
)

func unexpected(script string, v []string) error {
	return fmt.Errorf("redisx: %s.lua answered %q", script, v[0])
}

func bit(on bool) string {
	if on {
		return "1"
	}
	return "0"
}

// notAfterMS is 0 where there is no latest time.
func notAfterMS(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func ceiling(n int64) string {
	if n <= 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// appendAgents appends the number of agents whose revocation counts, and them.
func appendAgents(args []any, a budget.Agent) []any {
	args = append(args, 1+len(a.Ancestors), a.ID)
	for _, ancestor := range a.Ancestors {
		args = append(args, ancestor)
	}
	return args
}

func limitIDs(path []budget.Limit) []budget.LimitID {
	ids := make([]budget.LimitID, len(path))
	for i, l := range path {
		ids[i] = l.LimitID
	}
	return ids
}

// rowsAfter pairs limits with the figures a script read before it wrote, and
// applies what it wrote: Lua's own sums could be rounded.
func rowsAfter(path []budget.Limit, text string, wrote func(*budget.PoolRow)) ([]budget.PoolRow, error) {
	words := strings.Fields(text)
	if len(words) != 5*len(path) {
		return nil, fmt.Errorf("redisx: %d figures for %d limits", len(words), len(path))
	}
	rows := make([]budget.PoolRow, 0, len(path))
	for i, l := range path {
		if words[5*i] == "-" {
			continue // its hash is gone: there is nothing to show
		}
		c, err := figures(words[5*i:])
		if err != nil {
			return nil, err
		}
		row := budget.PoolRow{LimitID: l.LimitID, Counters: c}
		wrote(&row)
		rows = append(rows, row)
	}
	return rows, nil
}

// guess is what a caller believes about a record it has not read: the holder,
// limits and slots that its keys are built from.
type guess struct {
	org, holder, limits, slots string
	ids                        []budget.LimitID
	slotIDs                    []budget.Slot
}

func guessOf(org, holder string, path []budget.Limit) guess {
	return guess{org: org, holder: holder, limits: limitsLine(path), ids: limitIDs(path)}
}

// correct takes the truth from a record.
func (g *guess) correct(r Record) {
	g.holder, g.limits, g.slots, g.ids, g.slotIDs = r.holderLine, r.limitsLine, r.slotsLine, r.Limits, r.Slots
}

// keys appends the keys of limits and slots.
func (g *guess) keys(keys []string, k *partitionKeys) []string {
	for _, l := range g.ids {
		keys = append(keys, k.limit(g.org, l))
	}
	for _, s := range g.slotIDs {
		keys = append(keys, k.slot(g.org, s.Pool, s.Pattern))
	}
	return keys
}

// units appends the number of limits and the unit of each.
func (g *guess) units(args []any) []any {
	args = append(args, len(g.ids))
	for _, l := range g.ids {
		args = append(args, l.Unit)
	}
	return args
}

// request is the part of an entry's detail that comes from the message, as
// members of a JSON object; it may hold no newline, which json never writes.
func request(members ...string) string {
	out := make([]string, 0, len(members)/2)
	for i := 0; i+1 < len(members); i += 2 {
		if members[i+1] != "" {
			out = append(out, quote(members[i])+":"+members[i+1])
		}
	}
	return strings.Join(out, ",")
}
