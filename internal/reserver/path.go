package reserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"tallystick/internal/registry"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
)

func stale(err error) bool { return errors.Is(err, budget.ErrStalePolicy) }

// unreachable makes an outage of what the registry cannot tell. What is not
// there is not the caller's, and has been translated before.
func unreachable(err error) error {
	var e *events.Error
	var unit *budget.UnitError
	if errors.As(err, &e) || errors.As(err, &unit) {
		return err
	}
	return fmt.Errorf("%w: %w", budget.ErrUnavailable, err)
}

// caller is the agent that asks, with what the registry knows of it.
func (h *Handler) caller(ctx context.Context, org, id string) (registry.Agent, budget.Agent, error) {
	a, err := h.cfg.Registry.Agent(ctx, org, id)
	if errors.Is(err, registry.ErrNotFound) {
		return a, budget.Agent{}, events.NotFound("agent")
	}
	if err != nil {
		return a, budget.Agent{}, err
	}
	return a, budget.Agent{Org: org, ID: id, Ancestors: a.Ancestors}, nil
}

// path is the pools from the named one to its root. An agent may use its own
// pool and what lies below it; anything else does not exist for it.
func (h *Handler) path(ctx context.Context, a registry.Agent, named *string) ([]registry.Pool, error) {
	pool := a.Pool
	if named != nil {
		pool = *named
	}
	path, err := h.cfg.Registry.Path(ctx, a.Org, pool)
	if errors.Is(err, registry.ErrNotFound) {
		return nil, events.NotFound("pool")
	}
	if err != nil {
		return nil, err
	}
	if pool != a.Pool && !slices.ContainsFunc(path, func(p registry.Pool) bool { return p.Name == a.Pool }) {
		return nil, events.NotFound("pool")
	}
	return path, nil
}

// mayActFor: only its managers may spend on a principal's behalf; to everybody
// else it does not exist. The agent's own org is the only one looked in.
func (h *Handler) mayActFor(ctx context.Context, a registry.Agent, principal *string) error {
	if principal == nil {
		return nil
	}
	manages, err := h.cfg.Registry.Manages(ctx, a.Org, *principal, a.ID)
	if err == nil && !manages {
		return events.NotFound("principal")
	}
	return err
}

// limitsOf is every limit of every pool on a path: pools as they come, units
// in byte order inside a pool.
func limitsOf(path []registry.Pool) []budget.Limit {
	n := 0
	for i := range path {
		n += len(path[i].Limits)
	}
	limits := make([]budget.Limit, 0, n)
	for i := range path {
		p := &path[i]
		start := len(limits)
		for j := range p.Limits {
			l := &p.Limits[j]
			limits = append(limits, budget.Limit{LimitID: budget.LimitID{Pool: p.Name, Unit: l.Unit, Period: l.Period}, Rev: p.Rev})
		}
		if len(p.Limits) > 1 {
			slices.SortFunc(limits[start:], func(a, b budget.Limit) int {
				return cmp.Or(strings.Compare(a.Unit, b.Unit), strings.Compare(a.Period, b.Period))
			})
		}
	}
	return limits
}

// checkUnits: each limit's unit is given, and each unit given has a limit.
func checkUnits(limits []budget.Limit, amounts map[string]int64) error {
	var known [events.MaxUnits]string
	seen := known[:0]
	for i := range limits {
		unit := limits[i].Unit
		if _, ok := amounts[unit]; !ok {
			return &budget.UnitError{Unit: unit, Missing: true}
		}
		if !slices.Contains(seen, unit) {
			seen = append(seen, unit)
		}
	}
	if len(seen) == len(amounts) {
		return nil
	}
	unknown := ""
	for unit := range amounts {
		if !slices.Contains(seen, unit) && (unknown == "" || unit < unknown) {
			unknown = unit
		}
	}
	return &budget.UnitError{Unit: unknown}
}

// addCeilings puts caps that came with the request on the named pool's limits.
func addCeilings(limits []budget.Limit, named string, ceilings map[string]int64) error {
	if len(ceilings) == 0 {
		return nil
	}
	found := make(map[string]bool, len(ceilings))
	for i := range limits {
		l := &limits[i]
		if l.Pool != named {
			break
		}
		if c, ok := ceilings[l.Unit]; ok {
			l.Ceiling, found[l.Unit] = c, true
		}
	}
	if len(found) == len(ceilings) {
		return nil
	}
	unknown := ""
	for unit := range ceilings {
		if !found[unit] && (unknown == "" || unit < unknown) {
			unknown = unit
		}
	}
	return &budget.UnitError{Unit: unknown}
}

// slotsOf is, for each pool of the path, the longest pattern that the target
// matches: the policy's pattern counts, so an invented target gets no fresh
// limit.
func slotsOf(path []registry.Pool, target string) []budget.Slot {
	if target == "" {
		return nil
	}
	var slots []budget.Slot
	for i := range path {
		var best *registry.Slot
		for j := range path[i].Slots {
			s := &path[i].Slots[j]
			if matches(s.Pattern, target) && (best == nil || longer(s.Pattern, best.Pattern)) {
				best = s
			}
		}
		if best != nil {
			slots = append(slots, budget.Slot{Pool: path[i].Name, Pattern: best.Pattern, Max: best.Max})
		}
	}
	return slots
}

// longer orders patterns by length; equal ones by bytes, so that the choice
// never depends on their order in the policy.
func longer(a, b string) bool {
	if len(a) != len(b) {
		return len(a) > len(b)
	}
	return a < b
}

// matches: `*` stands for any run of bytes, none included; all else is itself.
// Its time is bounded by pattern times target, both short.
func matches(pattern, target string) bool {
	star, resume := -1, 0
	p, t := 0, 0
	for t < len(target) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, resume = p, t
			p++
		case p < len(pattern) && pattern[p] == target[t]:
			p, t = p+1, t+1
		case star >= 0:
			resume++
			p, t = star+1, resume
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

func poolNames(path []registry.Pool) []string {
	names := make([]string, len(path))
	for i := range path {
		names[i] = path[i].Name
	}
	return names
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
