package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-analyze/charts"

	"tallystick/internal/money"
)

// How much the page shows.
const (
	limitPlots = 3
	topMost    = 10
	barsMost   = 10
)

// stepLabels names each step of the series on an axis.
func (r *Report) stepLabels() []string {
	form := "2 Jan"
	if r.Series.Step == StepHour {
		form = "2 Jan 15:04"
	}
	labels := make([]string, max(0, len(r.Series.Edges)-1))
	for i := range labels {
		t, zone := r.times(r.Series.Edges[i])
		labels[i] = t.In(zone).Format(form)
	}
	return labels
}

// scale turns an integer into what an axis of its unit counts in. Only the
// place on the paper is a float.
func scale(unit string, n int64) float64 {
	if unit == moneyUnit {
		return float64(n) / money.PerUSD
	}
	return float64(n)
}

func axisTitle(unit string) string {
	if unit == moneyUnit {
		return "USD"
	}
	return unit
}

// axisFormat writes a figure of an axis: short, dollars for money.
func axisFormat(unit string) func(float64) string {
	return func(v float64) string {
		s := short(v)
		if unit != moneyUnit {
			return s
		}
		if strings.HasPrefix(s, "-") {
			return "-$" + s[1:]
		}
		return "$" + s
	}
}

func short(v float64) string {
	for _, step := range []struct {
		at   float64
		sign string
	}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e4, "k"}} {
		if v >= step.at || v <= -step.at {
			if step.sign == "k" {
				step.at = 1e3
			}
			return strconv.FormatFloat(v/step.at, 'g', 4, 64) + step.sign
		}
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// counts writes whole numbers; between them nothing can be.
func counts(v float64) string {
	if v != float64(int64(v)) {
		return ""
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// unitPlots are the plots of what was moved in one unit.
func (r *Report) unitPlots(unit string) ([]plot, error) {
	var out []plot
	shown := 0
	for _, s := range r.Series.Limits {
		if s.Unit != unit || shown == limitPlots {
			continue
		}
		shown++
		p, err := r.capPlot(s)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	held, err := r.heldPlot(unit)
	if err != nil {
		return nil, err
	}
	out = append(out, held)
	for _, d := range []string{ByAgent, ByPrincipal} {
		if d == ByPrincipal && !r.named(d) {
			continue
		}
		p, err := r.topPlot(unit, d)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// capPlot shows what a limit had spent against its cap.
func (r *Report) capPlot(s LimitSeries) (plot, error) {
	p := plot{Title: "Spend against cap: " + shortened(s.Pool, 40), Note: "Spent since the limit's period began, at the end of each " + r.Series.Step + ", against the cap."}
	labels := r.stepLabels()
	spent, limited := make([]float64, len(labels)), make([]float64, len(labels))
	now, next, capped := LimitPoint{}, 0, true
	for i := range labels {
		for next < len(s.Points) && s.Points[next].At <= i {
			now = s.Points[next]
			next++
		}
		if next == 0 { // there was no such limit yet
			spent[i], limited[i] = charts.GetNullValue(), charts.GetNullValue()
			continue
		}
		spent[i], limited[i] = scale(s.Unit, now.Spent), scale(s.Unit, now.Cap)
		capped = capped && now.Cap != money.Uncapped
	}
	c := chart{labels: labels, axis: axisTitle(s.Unit), format: axisFormat(s.Unit), lines: []line{{"spent", 1, spent}}}
	if capped {
		c.lines = append(c.lines, line{"cap", 2, limited})
	} else {
		p.Note = "Spent since the limit's period began, at the end of each " + r.Series.Step + ". The limit has no cap, or had none for a time."
	}
	var err error
	p.SVG, err = c.drawLines()
	return p, err
}

// heldPlot shows what was spent in each step against what was held at its end.
func (r *Report) heldPlot(unit string) (plot, error) {
	p := plot{Title: "Held against spent", Note: "Spent in each " + r.Series.Step + ", and what was held and withheld at its end."}
	i := slices.IndexFunc(r.Series.Org, func(u UnitSeries) bool { return u.Unit == unit })
	if i < 0 {
		p.Empty = "Nothing was held or spent."
		return p, nil
	}
	u := r.Series.Org[i]
	labels := r.stepLabels()
	spent, held, withheld := make([]float64, len(labels)), make([]float64, len(labels)), make([]float64, len(labels))
	now, next := UnitPoint{Held: u.OpenHeld, Withheld: u.OpenWithheld}, 0
	for i := range labels {
		now.Spent = 0
		if next < len(u.Points) && u.Points[next].At == i {
			now = u.Points[next]
			next++
		}
		spent[i], held[i], withheld[i] = scale(unit, now.Spent), scale(unit, now.Held), scale(unit, now.Withheld)
	}
	c := chart{labels: labels, axis: axisTitle(unit), format: axisFormat(unit), lines: []line{{"spent", 1, spent}, {"held", 3, held}, {"withheld", 4, withheld}}}
	var err error
	if len(labels) > barsMost {
		p.SVG, err = c.drawLines()
	} else {
		p.SVG, err = c.drawBars(false)
	}
	return p, err
}

// topPlot ranks those who spent most.
func (r *Report) topPlot(unit, dimension string) (plot, error) {
	p := plot{Title: "Top spenders by " + dimension, Note: fmt.Sprintf("What each %s spent in the range; at most the first %d.", dimension, topMost)}
	type spender struct {
		name  string
		spent int64
	}
	var all []spender
	for _, row := range r.Rows[dimension] {
		for _, s := range row.Units {
			if s.Unit == unit && s.Spent > 0 {
				all = append(all, spender{rowName(dimension, row), s.Spent})
			}
		}
	}
	if len(all) == 0 {
		p.Empty = "Nothing was spent."
		return p, nil
	}
	slices.SortStableFunc(all, func(a, b spender) int { return cmp.Compare(b.spent, a.spent) })
	c := chart{axis: axisTitle(unit), format: axisFormat(unit), lines: []line{{"spent", 1, nil}}}
	for _, s := range all[:min(len(all), topMost)] {
		c.labels = append(c.labels, s.name)
		c.lines[0].values = append(c.lines[0].values, scale(unit, s.spent))
	}
	var err error
	p.SVG, err = c.drawRanking()
	return p, err
}

// named reports whether a dimension has more than what has no name.
func (r *Report) named(dimension string) bool {
	return slices.ContainsFunc(r.Rows[dimension], func(row Row) bool { return row.Key != "" })
}

// troublePlot counts what did not go as reserved.
func (r *Report) troublePlot() (plot, error) {
	p := plot{Title: "Overruns and late settles", Note: "Entries in each " + r.Series.Step + ": settles above what was reserved, accepted and refused, settles after the deadline, and deadlines that passed."}
	if len(r.Series.Events) == 0 {
		p.Empty = "No overrun, no late settle and no expiry in the range."
		return p, nil
	}
	labels := r.stepLabels()
	c := chart{labels: labels, axis: "entries", format: counts}
	for i, name := range []string{"overrun", "refused", "late", "expired"} {
		c.lines = append(c.lines, line{name, uint8(i + 1), make([]float64, len(labels))}) //nolint:gosec // four
	}
	for _, e := range r.Series.Events {
		for i, n := range []int64{e.Overruns, e.OverrunRefused, e.LateSettled, e.Expired} {
			c.lines[i].values[e.At] = float64(n)
		}
	}
	var err error
	p.SVG, err = c.drawBars(true)
	return p, err
}

// driftPlot shows how many counters differed from the ledger.
func (r *Report) driftPlot() (plot, error) {
	p := plot{Title: "Drift history", Note: "The most counters that differed from the ledger at once, in each " + r.Series.Step + ", as the reconciler alarmed."}
	if r.Drift.Since != r.From {
		p.Note += " Alarms are kept for a limited time: nothing is known of before " + r.Drift.Since + "."
	}
	if len(r.Drift.Points) == 0 {
		p.Empty = "The reconciler gave no alarm."
		return p, nil
	}
	labels := r.stepLabels()
	c := chart{labels: labels, axis: "counters", format: counts, lines: []line{{"counters that differed", 2, make([]float64, len(labels))}}}
	for i := range labels {
		c.lines[0].values[i] = charts.GetNullValue() // no bar, not one of no height
	}
	for _, d := range r.Drift.Points {
		c.lines[0].values[d.At] = float64(d.Counters)
	}
	var err error
	p.SVG, err = c.drawBars(false)
	return p, err
}

// nameMost is how long a name on an axis may be, idMost how much of an id.
const (
	nameMost = 18
	idMost   = 6
)

// rowName is how a row is called on an axis. The end of an agent's id tells it
// from others of the same name, and is all there is where it has none.
func rowName(dimension string, row Row) string {
	switch {
	case row.Key == "":
		return "(none)"
	case dimension == ByAgent && len(row.Key) > idMost && row.Key != Other:
		end := "…" + row.Key[len(row.Key)-idMost:]
		if row.Label == "" {
			return end
		}
		return shortened(row.Label, nameMost-idMost) + " " + end
	}
	return shortened(row.Key, nameMost)
}

// shortened keeps a name from pushing the rest off the paper.
func shortened(name string, most int) string {
	name = strings.Map(func(c rune) rune {
		if c < 0x20 || c >= 0x7f && c < 0xa0 {
			return ' '
		}
		return c
	}, name)
	if runes := []rune(name); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return name
}
