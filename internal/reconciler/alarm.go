package reconciler

import (
	"context"
	"errors"
	"slices"
	"time"

	"tallystick/pkg/budget"
	"tallystick/pkg/events"
)

// suspect is one thing that differs: a counter of a limit, or a cause of the
// tolerance that is drift.
type suspect struct {
	budget.Counter
	what string
}

// alarms tells what goes on differing from what was seen once. An org is in
// alarm from when something has differed in enough comparisons, one after the
// other, until a comparison in which nothing does.
type alarms struct {
	tolerance Tolerance
	seen      map[suspect]int // in how many comparisons, one after the other
	raised    map[string]bool // by org
}

func newAlarms(t Tolerance) alarms {
	return alarms{tolerance: t, seen: map[suspect]int{}, raised: map[string]bool{}}
}

// suspects reports whether something differs that is no alarm yet.
func (a *alarms) suspects() bool {
	for s := range a.seen {
		if !a.raised[s.Org] {
			return true
		}
	}
	return false
}

// look takes a full comparison and lists the orgs for which an alarm is due,
// and those for which it is over.
func (a *alarms) look(answer events.ReconcileAnswer) (due, over []events.OrgReport) {
	seen := map[suspect]int{}
	lasting, compared := map[string]bool{}, map[string]bool{}
	for _, o := range answer.Orgs {
		compared[o.Org] = true
		suspects := a.tolerance.suspects(o)
		for _, s := range suspects {
			seen[s] = a.seen[s] + 1
			lasting[o.Org] = lasting[o.Org] || seen[s] >= a.tolerance.Sustained.Comparisons
		}
		switch {
		case lasting[o.Org] && !a.raised[o.Org]:
			due = append(due, o)
		case len(suspects) == 0 && a.raised[o.Org]:
			over = append(over, o)
		}
	}
	for org := range a.raised {
		if !compared[org] { // nothing of it is left that could differ
			over = append(over, events.OrgReport{Org: org, Drift: []events.DriftRow{}, Explained: []events.DriftExplained{}})
		}
	}
	a.seen = seen
	return due, over
}

// suspects lists what makes the verdict on an org drift.
func (t Tolerance) suspects(o events.OrgReport) (out []suspect) {
	for _, d := range o.Drift {
		if max(d.Drift, -d.Drift) > t.UnexplainedDrift || d.Cause == causeUnreadable {
			id := budget.LimitID{Pool: d.Pool, Unit: d.Unit, Period: d.Period}
			out = append(out, suspect{budget.Counter{Org: o.Org, LimitID: id}, d.Counter})
		}
	}
	for _, e := range o.Explained {
		i := slices.IndexFunc(t.Causes, func(c Cause) bool { return c.Cause == e.Cause })
		if i < 0 || t.Causes[i].Drift {
			out = append(out, suspect{budget.Counter{Org: o.Org}, e.Cause})
		}
	}
	return out
}

// publish tells where an alarm begins and where it ends, once each.
func (r *Reconciler) publish(ctx context.Context, answer events.ReconcileAnswer) error {
	due, over := r.alarms.look(answer)
	if len(due)+len(over) == 0 {
		return nil
	}
	now, err := r.cfg.Store.Now(ctx)
	if err != nil {
		return err
	}
	var errs []error
	tell := func(o events.OrgReport, verdict string) {
		head := events.NewEventHead(events.EventDrift, "drift-"+o.Org+"-"+now.Format(time.RFC3339Nano), o.Org, now)
		err := r.cfg.Events.Publish(ctx, events.Drift{EventHead: head, Verdict: verdict, Cut: o.Cut, Drift: o.Drift, Explained: o.Explained})
		if err != nil { // told at the next comparison
			errs = append(errs, err)
			return
		}
		if verdict == events.VerdictOK {
			delete(r.alarms.raised, o.Org)
			return
		}
		r.alarms.raised[o.Org] = true
	}
	for _, o := range due {
		r.cfg.Log.Error().Str("org", o.Org).Str("cut", o.Cut).Int("counters", len(o.Drift)).Msg("ALARM: counters and ledger differ")
		tell(o, events.VerdictDrift)
	}
	for _, o := range over {
		r.cfg.Log.Warn().Str("org", o.Org).Str("cut", o.Cut).Msg("counters and ledger are equal again")
		tell(o, events.VerdictOK)
	}
	r.metrics.alarm.Set(float64(len(r.alarms.raised)))
	return errors.Join(errs...)
}
