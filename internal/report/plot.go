package report

import (
	"fmt"
	"html/template"
	"regexp"
	"strings"

	"github.com/go-analyze/charts"
)

// Size of a plot. It is small so that its text is still read when a phone
// shrinks it.
const (
	plotWidth  = 560
	plotHeight = 300
	plotFont   = 11
	labelsMost = 5
)

// plot is one figure of the page; where there is nothing to draw it has words
// instead.
type plot struct {
	Title, Note string
	SVG         template.HTML
	Empty       string
}

// inks are colours that the page fills in, light or dark: each stands for a
// variable of its style sheet, and no plot uses it for anything else.
var inks = []struct {
	color    charts.Color
	variable string
}{
	{ink(1), "var(--c1)"},
	{ink(2), "var(--c2)"},
	{ink(3), "var(--c3)"},
	{ink(4), "var(--c4)"},
	{ink(5), "var(--text)"},
	{ink(6), "var(--rule)"},
	{ink(7), "var(--paper)"},
}

func ink(n uint8) charts.Color { return charts.Color{R: n, G: 7, B: 253, A: 255} }

// theme draws with the given series colours, by number.
func theme(series ...uint8) charts.ColorPalette {
	opt := charts.ThemeOption{
		AxisStrokeColor: ink(6), AxisSplitLineColor: ink(6), BackgroundColor: charts.ColorTransparent, TextColor: ink(5),
	}
	for _, n := range series {
		opt.SeriesColors = append(opt.SeriesColors, ink(n))
	}
	return charts.MakeTheme(opt)
}

// line is one series of a plot.
type line struct {
	name   string
	color  uint8
	values []float64
}

// chart is what all plots of figures over something have in common.
type chart struct {
	labels []string
	lines  []line
	axis   string // title of the axis of values
	format func(float64) string
}

func (c chart) theme() charts.ColorPalette {
	var colors []uint8
	for _, l := range c.lines {
		colors = append(colors, l.color)
	}
	return theme(colors...)
}

func (c chart) names() []string {
	var names []string
	for _, l := range c.lines {
		names = append(names, l.name)
	}
	return names
}

func (c chart) values() [][]float64 {
	var values [][]float64
	for _, l := range c.lines {
		values = append(values, l.values)
	}
	return values
}

func font() charts.FontStyle { return charts.FontStyle{FontSize: plotFont, FontColor: ink(5)} }

func (c chart) legend() charts.LegendOption {
	return charts.LegendOption{SeriesNames: c.names(), FontStyle: font(), Symbol: charts.SymbolSquare}
}

func (c chart) valueAxis() []charts.ValueAxisOption {
	return []charts.ValueAxisOption{{
		Min: charts.Ptr(c.lowest()), Title: c.axis, TitleFontStyle: font(), LabelFontStyle: font(),
		PreferNiceIntervals: charts.Ptr(true), SplitLineShow: charts.Ptr(true), ValueFormatter: c.format,
	}}
}

// lowest is where the axis of values begins: at zero, unless figures are below.
func (c chart) lowest() float64 {
	low := 0.0
	for _, l := range c.lines {
		for _, v := range l.values {
			low = min(low, v)
		}
	}
	return low
}

// points is how many figures the first line has.
func (c chart) points() (n int) {
	for _, v := range c.lines[0].values {
		if v != charts.GetNullValue() {
			n++
		}
	}
	return n
}

// drawLines draws figures over time as lines.
func (c chart) drawLines() (template.HTML, error) {
	opt := charts.NewLineChartOptionWithData(c.values())
	opt.Theme, opt.Legend, opt.YAxis, opt.ValueFormatter = c.theme(), c.legend(), c.valueAxis(), c.format
	opt.XAxis = charts.XAxisOption{Labels: c.labels, LabelFontStyle: font(), LabelCount: min(labelsMost, len(c.labels)), BoundaryGap: charts.Ptr(len(c.labels) == 1)}
	opt.LineStrokeWidth = 2.5
	opt.Symbol = charts.Symbol{Shape: charts.SymbolNone}
	if c.points() == 1 { // no line to see
		opt.Symbol = charts.Symbol{Shape: charts.SymbolDot, Size: 4}
	}
	return draw(plotHeight, func(p *charts.Painter) error { return p.LineChart(opt) })
}

// drawBars draws figures over time as bars, stacked or side by side.
func (c chart) drawBars(stacked bool) (template.HTML, error) {
	opt := charts.NewBarChartOptionWithData(c.values())
	opt.Theme, opt.Legend, opt.ValueAxis, opt.ValueFormatter = c.theme(), c.legend(), c.valueAxis(), c.format
	opt.CategoryAxis = charts.CategoryAxisOption{Labels: c.labels, LabelFontStyle: font(), LabelCount: min(labelsMost, len(c.labels))}
	opt.StackSeries = charts.Ptr(stacked)
	return draw(plotHeight, func(p *charts.Painter) error { return p.BarChart(opt) })
}

// drawRanking draws one bar per name, the first on top.
func (c chart) drawRanking() (template.HTML, error) {
	n := len(c.labels)
	labels, values := make([]string, n), make([]float64, n)
	for i := range n { // the library begins at the bottom
		labels[i], values[i] = c.labels[n-1-i], c.lines[0].values[n-1-i]
	}
	opt := charts.NewBarChartOptionWithData([][]float64{values})
	opt.Horizontal = true
	opt.Theme, opt.ValueAxis, opt.ValueFormatter = c.theme(), c.valueAxis(), c.format
	opt.ValueAxis[0].LabelCount = 4
	opt.Legend = charts.LegendOption{Show: charts.Ptr(false)}
	opt.CategoryAxis = charts.CategoryAxisOption{Labels: labels, LabelFontStyle: font()}
	return draw(90+26*n, func(p *charts.Painter) error { return p.BarChart(opt) })
}

var fontSize = regexp.MustCompile(`font-size:[0-9.]+px;font-family:[^"]*`)

// draw gives a plot as SVG to stand inside a page. The library escapes text.
func draw(height int, paint func(*charts.Painter) error) (template.HTML, error) {
	p := charts.NewPainter(charts.PainterOptions{OutputFormat: charts.ChartOutputSVG, Width: plotWidth, Height: height, Theme: theme(1)})
	if err := paint(p); err != nil {
		return "", fmt.Errorf("plot: %w", err)
	}
	b, err := p.Bytes()
	if err != nil {
		return "", fmt.Errorf("plot: %w", err)
	}
	svg := string(b)
	for _, i := range inks {
		svg = strings.ReplaceAll(svg, i.color.StringRGB(), i.variable)
	}
	// A browser's own sans-serif may be wider than the font that was measured.
	svg = fontSize.ReplaceAllString(svg, "font-size:12.5px;font-family:inherit")
	for _, namespace := range []string{` xmlns="http://www.w3.org/2000/svg"`, ` xmlns:xlink="http://www.w3.org/1999/xlink"`} {
		svg = strings.Replace(svg, namespace, "", 1) // a page knows it by itself
	}
	return template.HTML(strings.Replace(svg, "<svg", `<svg role="img"`, 1)), nil //nolint:gosec // made by the library, which escapes text; tested
}
