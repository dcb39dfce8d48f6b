package redisx

import (
	"maps"
	"slices"

	"tallystick/pkg/budget"
)

func sortedUnits(amounts budget.Amounts) []string {
	return slices.Sorted(maps.Keys(amounts))
}

// resolution is how a settle divided what was reserved.
type resolution struct {
	charged, returned, overrun budget.Amounts
	costUnknown, poolMissing   bool
}

// settled computes the answer of a settle from the record's resolution line:
// settle, key id, fingerprint, state before, booked, charged at expiry or "-",
// cost unknown, pool missing.
func (r Record) settled() (resolution, error) {
	w := r.Resolution
	if len(w) != 8 || w[0] != "settle" {
		return resolution{}, errRecord
	}
	booked, err := parseAmounts(w[4])
	if err != nil {
		return resolution{}, err
	}
	earlier, err := parseAmounts(w[5])
	if err != nil {
		return resolution{}, err
	}
	out := resolution{budget.Amounts{}, budget.Amounts{}, budget.Amounts{}, w[6] == "1", w[7] == "1"}
	for unit, reserved := range r.Amounts {
		out.charged[unit] = max(0, booked[unit]-earlier[unit])
		switch w[3] {
		case "charged":
			out.returned[unit] = max(0, earlier[unit]-booked[unit])
		case "lapsed":
			out.returned[unit] = 0
		default:
			out.returned[unit] = max(0, reserved-booked[unit])
		}
		if over := booked[unit] - reserved; over > 0 {
			out.overrun[unit] = over
		}
	}
	return out, nil
}

// Resolved is what a record's resolution charged and gave back; both are nil
// while it is held or withheld. A refused overrun that expired is charged.
func (r Record) Resolved() (charged, returned budget.Amounts) {
	switch r.State {
	case budget.StateSettled, budget.StateLateSettled:
		if res, err := r.settled(); err == nil {
			return res.charged, res.returned
		}
	case budget.StateReleased:
		return nil, r.released()
	case budget.StateLapsed:
		return nil, r.Amounts
	case budget.StateExpired:
		if len(r.Resolution) == 3 && r.Resolution[2] != "" {
			if known, err := parseAmounts(r.Resolution[2]); err == nil {
				return known, nil
			}
		}
	}
	return nil, nil
}

// released is what a release gave back.
func (r Record) released() budget.Amounts {
	if len(r.Resolution) == 5 && r.Resolution[0] == "release" {
		return r.Amounts
	}
	return budget.Amounts{}
}
