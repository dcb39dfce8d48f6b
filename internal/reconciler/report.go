package reconciler

import (
	"context"
	"slices"
	"strings"

	"tallystick/internal/ledger"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
)

// Reconcile compares one org, or every org where org is "".
func (r *Reconciler) Reconcile(ctx context.Context, org string) (events.ReconcileAnswer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	answer := events.ReconcileAnswer{Verdict: events.VerdictOK}
	for p := range r.cfg.Store.Partitions() {
		if org != "" && r.cfg.Store.Partition(org) != p {
			continue
		}
		c, err := r.compare(ctx, p, org)
		if err != nil {
			return events.ReconcileAnswer{}, err
		}
		answer.Orgs = append(answer.Orgs, r.reports(c, org)...)
	}
	slices.SortFunc(answer.Orgs, func(a, b events.OrgReport) int { return strings.Compare(a.Org, b.Org) })
	for _, o := range answer.Orgs {
		if r.drifts(o) {
			answer.Verdict = events.VerdictDrift
		}
	}
	if org == "" {
		r.measure(answer)
	}
	return answer, nil
}

// reports turns a comparison into one report per org.
func (r *Reconciler) reports(c comparison, org string) []events.OrgReport {
	byOrg := map[string]*events.OrgReport{}
	report := func(name string) *events.OrgReport {
		if byOrg[name] == nil {
			byOrg[name] = &events.OrgReport{Org: name, Cut: ledger.EntryID(c.partition, c.at), Drift: []events.DriftRow{}}
		}
		return byOrg[name]
	}
	if org != "" {
		report(org)
	}
	missing, unreadable, uncharged := map[string]*tally{}, map[string]*tally{}, r.fold.uncharged()
	for _, w := range c.rows {
		o := report(w.id.Org)
		o.Drift = append(o.Drift, w.drift()...)
		gone := budget.Amounts{w.id.Unit: w.expected.Held + w.expected.Spent + w.expected.Withheld}
		switch {
		case w.missing:
			tallyOf(missing, w.id.Org).add(gone)
		case w.corrupt != "":
			tallyOf(unreadable, w.id.Org).add(gone)
		}
	}
	var out []events.OrgReport
	for name, o := range byOrg {
		o.Explained = explained(map[string]*tally{
			causeOutboxPending: c.pending[name], causeOverrunRefused: uncharged[name], causeLateSettled: r.fold.late[name],
			causeQuarantined: c.set[name], causePoolMissing: missing[name], causeUnreadable: unreadable[name],
		})
		out = append(out, *o)
	}
	return out
}

func explained(causes map[string]*tally) []events.DriftExplained {
	out := []events.DriftExplained{}
	for cause, t := range causes {
		if t != nil && t.count > 0 {
			out = append(out, events.DriftExplained{Cause: cause, Count: t.count, Amounts: t.amounts})
		}
	}
	slices.SortFunc(out, func(a, b events.DriftExplained) int { return strings.Compare(a.Cause, b.Cause) })
	return out
}

// uncharged is what refused overruns have cost and not been charged, by org.
func (f *fold) uncharged() map[string]*tally {
	out := map[string]*tally{}
	for _, refused := range f.refused {
		tallyOf(out, refused.org).add(refused.uncharged)
	}
	return out
}

// drift lists the counters that are not as expected.
func (w row) drift() []events.DriftRow {
	var out []events.DriftRow
	for _, c := range [...]struct {
		name             string
		expected, actual int64
	}{
		{"cap", w.expected.Cap, w.actual.Cap},
		{"adj", w.expected.Adj, w.actual.Adj},
		{"held", w.expected.Held, w.actual.Held},
		{"spent", w.expected.Spent, w.actual.Spent},
		{"withheld", w.expected.Withheld, w.actual.Withheld},
	} {
		if c.expected == c.actual && c.name != w.corrupt {
			continue
		}
		d := events.DriftRow{
			Pool: w.id.Pool, Unit: w.id.Unit, Period: w.id.Period, Counter: c.name,
			Expected: c.expected, Actual: c.actual, Drift: c.actual - c.expected,
		}
		switch {
		case w.missing:
			d.Cause = causePoolMissing
		case c.name == w.corrupt: // its text counts as 0
			d.Cause = causeUnreadable
		}
		out = append(out, d)
	}
	return out
}

// drifts is the verdict on one org by the published tolerance.
func (r *Reconciler) drifts(o events.OrgReport) bool { return len(r.tolerance.suspects(o)) > 0 }

func (r *Reconciler) measure(answer events.ReconcileAnswer) {
	counters := 0
	counts := map[string]int64{}
	for _, o := range answer.Orgs {
		counters += len(o.Drift)
		for _, e := range o.Explained {
			counts[e.Cause] += e.Count
		}
	}
	r.metrics.drift.Set(float64(counters))
	for _, c := range r.tolerance.Causes {
		r.metrics.explained.WithLabelValues(c.Cause).Set(float64(counts[c.Cause]))
	}
}
