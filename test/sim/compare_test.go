package sim

import (
	"errors"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"tallystick/pkg/budget"
)

// view is what of a decision both sides must agree on. Figures that change
// with time are left out of a replay, as the contract allows.
type view struct {
	Err                         string
	Outcome                     budget.Outcome
	Replayed                    bool
	Reservation                 string
	Amounts, Charged, Returned  budget.Amounts
	Overrun, Authorised, Actual budget.Amounts
	ExpiresAt                   time.Time
	ExpiresIn                   time.Duration
	Reason                      budget.Reason
	Limit                       budget.LimitID
	Figures                     budget.Counters
	Requested, Holders          int64
	CostUnknown, PoolMissing    bool
	Pools                       []budget.PoolRow
}

func look(d budget.Decision, err error) view {
	if err != nil {
		return view{Err: reason(err)}
	}
	v := view{
		Outcome: d.Outcome, Replayed: d.Replayed, Reservation: d.Reservation, Amounts: positive(d.Amounts),
		Charged: positive(d.Charged), Returned: positive(d.Returned), Overrun: positive(d.Overrun),
		ExpiresAt: d.ExpiresAt, CostUnknown: d.CostUnknown, PoolMissing: d.PoolMissing,
	}
	if d.Denial != nil {
		v.Reason, v.Reservation = d.Denial.Reason, ""
	}
	if v.Reason == budget.ReasonReleased || d.Outcome == budget.Released && len(v.Returned) == 0 {
		v.Replayed = false // a tombstone's answer is the same whoever asks how often
	}
	if d.Denial != nil && !d.Replayed {
		v.Limit, v.Holders = d.Denial.Limit, d.Denial.Holders
		if d.Denial.HasFigures {
			v.Requested, v.Figures = d.Denial.Requested, d.Denial.Counters
		}
	}
	if v.Reason == budget.ReasonOverrun && len(d.Epsilon) > 0 { // a settle's, not a release's
		v.Authorised, v.Actual = positive(d.Authorised), positive(d.Actual)
	}
	if !d.Replayed && d.Outcome == budget.Allowed {
		v.ExpiresIn = d.ExpiresIn
		if d.Reservation != "" { // a dry run may show them as they would be
			v.Pools = d.Pools
		}
	}
	return v
}

func reason(err error) string {
	var unit *budget.UnitError
	if errors.As(err, &unit) {
		return unit.Error()
	}
	for _, known := range []error{
		budget.ErrNotFound, budget.ErrKeyReused, budget.ErrAlreadySettled, budget.ErrAlreadyReleased,
		budget.ErrAlreadyExpired, budget.ErrUnavailable, budget.ErrStalePolicy, budget.ErrAttempts,
	} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return "unexpected: " + err.Error()
}

// positive drops zeros: a unit that moved nothing may be named or not.
func positive(a budget.Amounts) budget.Amounts {
	out := budget.Amounts{}
	for unit, n := range a {
		if n != 0 {
			out[unit] = n
		}
	}
	return out
}

func (w *world) compare(rt *rapid.T, request any, got budget.Decision, gotErr error, want budget.Decision, wantErr error) {
	g, m := look(got, gotErr), look(want, wantErr)
	if diff := cmp.Diff(m, g); diff != "" {
		rt.Fatalf("%T disagrees (-model +scripts):\n%s\nrequest %+v\nscripts %v, %v\nmodel %v, %v", request, diff, request, g.Outcome, gotErr, m.Outcome, wantErr)
	}
	if !got.Replayed && gotErr == nil {
		w.mayTake(rt, request, got.Outcome)
	}
	switch {
	case m.Err != "":
		w.outcomes[m.Err]++
	case m.Reason != "":
		w.outcomes["denied "+string(m.Reason)]++
	default:
		w.outcomes[string(m.Outcome)]++
	}
	if m.Replayed {
		w.outcomes["replayed"]++
	}
	if m.PoolMissing {
		w.outcomes["pool missing"]++
	}
}
