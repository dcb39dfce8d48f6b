package report_test

import (
	"strings"
	"testing"
	"time"

	"tallystick/internal/report"
	"tallystick/pkg/budget"
)

// TestLimitYoungerThanTheRange: the page draws a limit that began on the last
// day, and one with a single point.
func TestLimitYoungerThanTheRange(t *testing.T) {
	t.Parallel()
	for _, days := range []int{1, 30} {
		a := aggregator(t, span(begin, begin.AddDate(0, 0, days)))
		late := begin.AddDate(0, 0, days).Add(-time.Hour)
		id := budget.LimitID{Pool: "p", Unit: usd, Period: budget.PeriodNone}
		a.Add(&budget.Entry{Kind: budget.KindPolicyChanged, At: late, Moves: []budget.Move{{LimitID: id, Cap: 900_000_000}}}, report.AsOf{Seq: 1})
		a.Add(&budget.Entry{Kind: budget.KindCharged, At: late, Moves: []budget.Move{{LimitID: id, Spent: 80_000_000}}}, report.AsOf{Seq: 2})
		r := a.Report()
		if n := len(r.Series.Limits[0].Points); n != 1 {
			t.Errorf("%d points", n)
		}
		if page := render(t, r, report.FormatHTML); !strings.Contains(page, "<circle") {
			t.Errorf("%d days: a single point is not to be seen", days)
		}
	}
}
