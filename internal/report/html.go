package report

import (
	"cmp"
	_ "embed"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"tallystick/internal/money"
)

// rowsShown bounds the rows of a table on the page; the other formats have all.
const rowsShown = 50

//go:embed page.html
var pageText string

// page is what the template shows.
type page struct {
	*Report
	Empty    bool
	Units    []unitPage
	Trouble  []plot
	LimitsOf []Limit
	MoreOf   int
}

// unitPage is what was moved in one unit.
type unitPage struct {
	Sums
	Name   string
	Plots  []plot
	Tables []tablePage
}

// tablePage is one dimension in one unit.
type tablePage struct {
	Dimension string
	Rows      []rowPage
	More      int
	ShowHeld  bool // of rows that have money of their own
}

type rowPage struct {
	Name, Key string
	Sums
}

// times reads a time of the report, and its zone.
func (r *Report) times(at string) (time.Time, *time.Location) {
	zone, err := time.LoadLocation(r.Zone)
	if err != nil {
		zone = time.UTC
	}
	t, err := time.Parse(time.RFC3339Nano, at)
	if err != nil {
		return time.Time{}, zone
	}
	return t, zone
}

var functions = template.FuncMap{
	"amount": shownAmount,
	"count":  money.Grouped,
	"title":  func(s string) string { return strings.ToUpper(s[:1]) + s[1:] },
	"capped": func(n int64) bool { return n != money.Uncapped },
}

// When shows a time of the report in its zone, without what is zero.
func (p page) When(at string) string {
	t, zone := p.times(at)
	form := "2 January 2006 15:04:05"
	if t.In(zone).Equal(Day(t, 0, zone)) {
		form = "2 January 2006"
	}
	return t.In(zone).Format(form)
}

// shownAmount shows an amount: dollars in front for people, the integer that
// the ledger counts behind.
func shownAmount(unit string, n int64) template.HTML {
	if n == 0 {
		return `<span class="dim">0</span>`
	}
	if unit != moneyUnit {
		return template.HTML(money.Grouped(n)) //nolint:gosec // digits
	}
	return template.HTML(money.Dollars(n) + " <small>" + money.Grouped(n) + "</small>") //nolint:gosec // digits
}

// WriteHTML writes one page that needs nothing else: no script, no request.
func (r *Report) WriteHTML(w io.Writer) error {
	t, err := template.New("page").Funcs(functions).Parse(pageText)
	if err != nil {
		return err
	}
	p, err := r.page()
	if err != nil {
		return err
	}
	return t.Execute(w, p)
}

func (r *Report) page() (page, error) {
	p := page{Report: r, Empty: len(r.Totals) == 0, LimitsOf: r.Limits}
	if len(p.LimitsOf) > rowsShown {
		p.LimitsOf = slices.Clone(r.Limits)
		slices.SortStableFunc(p.LimitsOf, func(a, b Limit) int { return cmp.Compare(b.Spent, a.Spent) })
		p.LimitsOf, p.MoreOf = p.LimitsOf[:rowsShown], len(r.Limits)-rowsShown
	}
	for _, total := range r.Totals {
		u := unitPage{Sums: total, Name: total.Unit}
		if total.Unit == moneyUnit {
			u.Name = "Money (" + moneyUnit + ")"
		}
		var err error
		if u.Plots, err = r.unitPlots(total.Unit); err != nil {
			return p, err
		}
		for _, d := range Dimensions() {
			if t := r.tableOf(d, total.Unit); len(t.Rows) > 0 {
				u.Tables = append(u.Tables, t)
			}
		}
		p.Units = append(p.Units, u)
	}
	for _, draw := range []func() (plot, error){r.troublePlot, r.driftPlot} {
		figure, err := draw()
		if err != nil {
			return p, err
		}
		p.Trouble = append(p.Trouble, figure)
	}
	return p, nil
}

// tableOf gives a dimension's rows of a unit, the biggest spenders first; days
// and kinds stay in their order.
func (r *Report) tableOf(dimension, unit string) tablePage {
	t := tablePage{Dimension: dimension, ShowHeld: dimension != ByDay && dimension != ByKind}
	for _, row := range r.Rows[dimension] {
		if row.Key == Earlier && dimension == ByDay {
			continue
		}
		for _, s := range row.Units {
			if s.Unit == unit {
				t.Rows = append(t.Rows, rowPage{Name: cmp.Or(row.Label, row.Key, "(none)"), Key: row.Key, Sums: s})
			}
		}
	}
	if dimension == ByPrincipal && !r.named(dimension) {
		t.Rows = nil
	}
	if t.ShowHeld {
		slices.SortStableFunc(t.Rows, func(a, b rowPage) int { return cmp.Compare(b.Spent, a.Spent) })
	}
	if len(t.Rows) > rowsShown && dimension != ByDay {
		t.Rows, t.More = t.Rows[:rowsShown], len(t.Rows)-rowsShown
	}
	return t
}
