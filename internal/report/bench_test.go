package report_test

import (
	"testing"
	"time"

	"tallystick/internal/report"
	"tallystick/pkg/budget"
)

func entryOf(spent int64) budget.Entry {
	return budget.Entry{Org: "acme", Kind: budget.KindCharged, At: begin, Moves: []budget.Move{{LimitID: budget.LimitID{Pool: "p", Unit: tokens, Period: budget.PeriodNone}, Spent: spent}}}
}

// BenchmarkAggregate adds up entries of a tree of two pools with two units.
func BenchmarkAggregate(b *testing.B) {
	var entries []budget.Entry
	s := newStory(1, func(e *budget.Entry, _ report.AsOf) { entries = append(entries, *e) })
	s.found()
	s.goOn(10_000, time.Minute)
	b.ReportAllocs()
	b.ResetTimer()
	a := aggregator(b, span(begin, begin.AddDate(0, 0, 31)))
	for n := range b.N {
		a.Add(&entries[n%len(entries)], report.AsOf{Seq: uint64(n)}) //nolint:gosec // positive
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "entries/s")
}

// BenchmarkPage draws the page of a month.
func BenchmarkPage(b *testing.B) {
	a := aggregator(b, span(begin, begin.AddDate(0, 0, 31)))
	s := newStory(1, a.Add)
	s.found("crawler", "triage")
	s.goOn(10_000, 4*time.Minute)
	r := a.Report()
	for b.Loop() {
		render(b, r, report.FormatHTML)
	}
}
