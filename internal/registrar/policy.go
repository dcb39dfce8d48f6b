package registrar

import (
	"cmp"
	"slices"
	"strings"

	"tallystick/internal/registry"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
)

// Defaults of a limit's rules.
const (
	lateWindowDefaultMS int64 = 3_600_000
	// A settle may pass its reservation by a hundredth of a dollar: prices are
	// estimated before a call and known after it.
	epsilonMicrocents int64 = 1_000_000
)

const patternMaxBytes = 64

// newPool is the pool that a request asks for, at its first revision.
func newPool(q events.PoolCreate) (registry.Pool, error) {
	p := registry.Pool{Org: q.Org, Name: q.Pool, Rev: 1}
	if q.Parent != nil {
		p.Parent = *q.Parent
	}
	for _, spec := range q.Limits {
		if err := checkRules("limits.", spec.Period, spec.LateWindowMS); err != nil {
			return p, err
		}
		p.Limits = append(p.Limits, newLimit(spec))
	}
	slices.SortFunc(p.Limits, func(a, b registry.Limit) int {
		return cmp.Or(strings.Compare(a.Unit, b.Unit), strings.Compare(a.Period, b.Period))
	})
	var err error
	p.Slots, err = newSlots(q.Slots)
	return p, err
}

func newLimit(spec events.LimitSpec) registry.Limit {
	l := registry.Limit{
		Unit: spec.Unit, Period: budget.PeriodNone, Cap: spec.Cap, OnOverrun: events.OverrunReject, LateWindowMS: lateWindowDefaultMS,
	}
	if spec.Unit == "usd_microcents" {
		l.Epsilon = epsilonMicrocents
	}
	setRules(&l, spec.Epsilon, spec.OnOverrun, spec.LateWindowMS)
	return l
}

func setRules(l *registry.Limit, epsilon *int64, onOverrun *string, lateWindowMS *int64) {
	if epsilon != nil {
		l.Epsilon = *epsilon
	}
	if onOverrun != nil {
		l.OnOverrun = *onOverrun
	}
	if lateWindowMS != nil {
		l.LateWindowMS = *lateWindowMS
	}
}

// checkRules refuses what the wire allows and this version cannot do.
func checkRules(prefix string, period *string, lateWindowMS *int64) error {
	if period != nil && *period != budget.PeriodNone {
		return events.InvalidArgument(prefix+"period", "only limits without a period exist so far", "not yet: leave period out, or give none")
	}
	if lateWindowMS != nil && *lateWindowMS < 0 {
		return events.InvalidArgument(prefix+"late_window_ms", "must not be negative", "not yet: a window up to a period's end needs periods")
	}
	return nil
}

// newSlots sorts slots by their pattern. None at all and an empty list are
// the same.
func newSlots(asked []events.Slot) ([]registry.Slot, error) {
	var slots []registry.Slot
	for _, s := range asked {
		if len(s.Pattern) > patternMaxBytes {
			return nil, events.InvalidArgument("slots.pattern", "must have 1 to 64 bytes", "* is the only wildcard and matches any run of bytes")
		}
		slots = append(slots, registry.Slot{Pattern: s.Pattern, Max: s.Max})
	}
	slices.SortFunc(slots, func(a, b registry.Slot) int { return strings.Compare(a.Pattern, b.Pattern) })
	return slots, nil
}

// checkSet refuses a change that can be refused without looking at the pool.
func checkSet(q events.PoolSet) error {
	if !namesRules(q) && q.Slots == nil {
		return events.InvalidArgument("", "nothing to change is named", "name cap, epsilon, on_overrun, late_window_ms or slots")
	}
	if err := checkRules("", q.Period, q.LateWindowMS); err != nil {
		return err
	}
	_, err := newSlots(q.Slots)
	return err
}

func namesRules(q events.PoolSet) bool {
	return q.CapGiven || q.Epsilon != nil || q.OnOverrun != nil || q.LateWindowMS != nil
}

// edit changes what the request names and nothing else.
func edit(p *registry.Pool, q events.PoolSet) error {
	if namesRules(q) || q.Unit != nil {
		l, err := limitOf(p, q.Unit, q.Period)
		if err != nil {
			return err
		}
		if q.CapGiven {
			l.Cap = q.Cap
		}
		setRules(l, q.Epsilon, q.OnOverrun, q.LateWindowMS)
	}
	if q.Slots != nil {
		var err error
		if p.Slots, err = newSlots(q.Slots); err != nil {
			return err
		}
	}
	return nil
}

// limitOf finds the one limit that is meant.
func limitOf(p *registry.Pool, unit, period *string) (*registry.Limit, error) {
	var found *registry.Limit
	var units []string
	for i := range p.Limits {
		l := &p.Limits[i]
		units = append(units, l.Unit)
		if (unit != nil && l.Unit != *unit) || (period != nil && l.Period != *period) {
			continue
		}
		if found == nil {
			found = l
			continue
		}
		field := "unit"
		if unit != nil {
			field = "period"
		}
		return nil, events.InvalidArgument(field, "the pool has several limits", "say which; its units: "+strings.Join(units, ", "))
	}
	if found == nil {
		return nil, events.InvalidArgument("unit", "the pool has no such limit", "its units: "+strings.Join(units, ", "))
	}
	return found, nil
}
