package report_test

import (
	"strings"
	"testing"
	"time"

	"tallystick/internal/report"
	"tallystick/pkg/budget"
)

// TestDaysOfAZone: a day begins at the zone's midnight, and the night the clock
// goes back makes it 25 hours long.
func TestDaysOfAZone(t *testing.T) {
	t.Parallel()
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	from := time.Date(2026, 10, 24, 0, 0, 0, 0, zone)
	r := report.Range{From: from, To: report.Day(from, 4, zone), Zone: zone}
	a := aggregator(t, r)
	one := []budget.Move{{LimitID: budget.LimitID{Pool: "p", Unit: tokens, Period: budget.PeriodNone}, Spent: 1}}
	for i := range 24 * 5 {
		a.Add(&budget.Entry{Org: "acme", Kind: budget.KindCharged, At: from.Add(time.Duration(i-1)*time.Hour + time.Minute), Moves: one}, report.AsOf{Seq: uint64(i + 1)}) //nolint:gosec // small
	}
	got := a.Report()
	for day, want := range map[string]int64{"2026-10-24": 24, "2026-10-25": 25, "2026-10-26": 24, "2026-10-27": 24} {
		if row, ok := got.Find(report.ByDay, day); !ok || row.Units[0].Spent != want {
			t.Errorf("%s: %+v, want %d", day, row, want)
		}
	}
	if got.Totals[0].Spent != 97 || got.AsOf.Seq != 98 || got.Entries != 97 {
		t.Errorf("totals %+v as of %+v", got.Totals, got.AsOf)
	}
	if want := "20261023T220000Z_20261027T230000Z_98_Europe-Berlin"; got.ID != want {
		t.Errorf("id %s, want %s", got.ID, want)
	}
}

func TestHoursOfAShortRange(t *testing.T) {
	t.Parallel()
	a := aggregator(t, span(begin.Add(30*time.Minute), begin.Add(3*time.Hour)))
	s := a.Report().Series
	if s.Step != report.StepHour || len(s.Edges) != 4 || !strings.HasPrefix(s.Edges[1], "2026-10-01T01:00:00") {
		t.Errorf("%s %v", s.Step, s.Edges)
	}
}

func TestRangeRefuses(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]report.Range{
		"no zone": {From: begin, To: begin.Add(time.Hour)}, "empty": span(begin, begin), "backwards": span(begin, begin.Add(-time.Hour)),
		"eleven years": span(begin, begin.AddDate(11, 0, 0)), "fraction": span(begin.Add(1), begin.Add(time.Hour)),
	} {
		if _, err := report.New("acme", r); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
