package report

import (
	"cmp"
	"slices"
	"time"

	"tallystick/pkg/events"
)

// Report gives what was added up. The aggregator is spent by it.
func (a *Aggregator) Report() *Report {
	if a.asOf.Hash == "" {
		a.asOf.Hash = zeroHash
	}
	r := &Report{
		V: Version, Type: Type, ID: a.span.ID(a.asOf.Seq), Org: a.org,
		From: stamp(a.span.From), To: stamp(a.span.To), Zone: a.span.Zone.String(),
		AsOf: a.asOf, Entries: a.count, Truncated: []string{}, Totals: []Sums{}, Rows: map[string][]Row{},
		Limits: a.finishLimits(), Series: a.series.finish(a.limits), Drift: a.drift,
	}
	for _, d := range Dimensions() {
		var label func(string) string
		if d == ByAgent {
			label = func(id string) string { return a.names[id] }
		}
		if a.tables[d].full() {
			r.Truncated = append(r.Truncated, d)
		}
		r.Rows[d] = a.tables[d].finish(label)
	}
	for _, row := range a.total.finish(nil) {
		r.Totals = row.Units
	}
	return r
}

// zeroHash is the head of a chain without entries.
const zeroHash = "0000000000000000000000000000000000000000000000000000000000000000"

func (a *Aggregator) finishLimits() []Limit {
	out := []Limit{}
	for id, l := range a.limits {
		out = append(out, Limit{
			Pool: id.Pool, Unit: id.Unit, Period: id.Period, CapBefore: l.before.Cap, Cap: l.now.Cap, Adj: l.now.Adj,
			Held: l.now.Held, Spent: l.now.Spent, Withheld: l.now.Withheld, Remaining: remaining(l.now),
		})
	}
	slices.SortFunc(out, func(a, b Limit) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), unitOrder(a.Unit, b.Unit), cmp.Compare(a.Period, b.Period))
	})
	return out
}

// DriftSince says that drift before a time is not known any more.
func (a *Aggregator) DriftSince(t time.Time) {
	if t.After(a.span.From) {
		a.drift.Since = stamp(t)
	}
}

// AddDrift counts an alarm of the reconciler, in the order in which they were
// given.
func (a *Aggregator) AddDrift(at time.Time, alarm events.Drift) {
	step := a.series.calendar.at(at)
	if step < 0 || step >= a.series.calendar.steps() {
		return
	}
	n := len(a.drift.Points)
	if n == 0 || a.drift.Points[n-1].At < step {
		a.drift.Points = append(a.drift.Points, DriftPoint{At: step, Amounts: map[string]int64{}})
		n++
	}
	p := &a.drift.Points[n-1]
	p.Alarms++
	p.Counters = max(p.Counters, len(alarm.Drift))
	sums := map[string]int64{}
	for _, d := range alarm.Drift {
		sums[d.Unit] += max(d.Drift, -d.Drift)
	}
	for unit, sum := range sums {
		p.Amounts[unit] = max(p.Amounts[unit], sum)
	}
}
