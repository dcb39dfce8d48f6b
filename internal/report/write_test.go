package report_test

import (
	"encoding/csv"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"tallystick/internal/report"
)

func render(t testing.TB, r *report.Report, format string) string {
	t.Helper()
	b, err := r.Render(format)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestPageNeedsNothing: no script, no request, and a policy that would refuse
// both.
func TestPageNeedsNothing(t *testing.T) {
	t.Parallel()
	page := render(t, goldenEntries(t), report.FormatHTML)
	if !strings.Contains(page, `content="default-src 'none'; style-src 'unsafe-inline'; img-src data:"`) {
		t.Error("the page has no policy")
	}
	for _, bad := range []string{"http:", "https:", "//", "<script", "<img", "<link", "url(", "@import", "javascript:", "onerror=alert(1)>", "rgb(", "ZgotmplZ"} {
		if i := strings.Index(page, bad); i >= 0 {
			t.Errorf("the page has %q: …%s…", bad, page[max(0, i-60):min(len(page), i+60)])
		}
	}
	if n := strings.Count(page, "<svg role=\"img\""); n < 9 {
		t.Errorf("%d plots", n)
	}
	for _, heading := range []string{"Spend against cap: company", "Held against spent", "Drift history", "Top spenders by agent", "Overruns and late settles"} {
		if !strings.Contains(page, heading) {
			t.Errorf("no %q", heading)
		}
	}
}

// TestHostileNames: what an agent, pool or principal calls itself is text, in
// the page and in its plots.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	a := aggregator(t, span(begin, begin.AddDate(0, 0, 5)))
	s := newStory(3, a.Add)
	s.found(hostileNames...)
	s.goOn(300, 15*time.Minute)
	r := a.Report()
	const name = `</text></svg><script>alert("1")</script>`
	for i := range r.Series.Limits {
		r.Series.Limits[i].Pool = name
	}
	for i := range r.Limits {
		r.Limits[i].Pool, r.Limits[i].Period = name, name
	}
	for _, d := range report.Dimensions() {
		for i := range r.Rows[d] {
			r.Rows[d][i].Key += name
		}
	}
	for _, svg := range regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(render(t, r, report.FormatHTML), -1) {
		d := xml.NewDecoder(strings.NewReader(svg))
		for {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("a plot is no XML: %v", err)
			}
			if e, ok := token.(xml.StartElement); ok && e.Name.Local != "svg" && e.Name.Local != "path" && e.Name.Local != "text" && e.Name.Local != "circle" {
				t.Errorf("a plot has <%s>", e.Name.Local)
			}
		}
	}
	page := render(t, r, report.FormatHTML)
	if strings.Contains(page, "<script") || strings.Contains(page, "alert(\"1\")") {
		t.Error("a name became a part of the page")
	}
	if !strings.Contains(page, "&lt;/text&gt;") || !strings.Contains(page, "&lt;script&gt;") {
		t.Error("a name is lost: nothing was tried")
	}
}

func TestNothingHappened(t *testing.T) {
	t.Parallel()
	r := aggregator(t, span(begin, begin.AddDate(0, 0, 1))).Report()
	page := render(t, r, report.FormatHTML)
	for _, want := range []string{"Nothing was reserved", "No overrun", "gave no alarm"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q", want)
		}
	}
	if strings.Contains(page, "<svg") {
		t.Error("an empty plot")
	}
	rows := readCSV(t, r)
	if len(rows) != 1 {
		t.Errorf("%v", rows)
	}
}

func readCSV(t testing.TB, r *report.Report) [][]string {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(render(t, r, report.FormatCSV))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// TestTableTies: the CSV read back gives the totals, no cell is a formula, and
// figures below zero stay numbers.
func TestTableTies(t *testing.T) {
	t.Parallel()
	r := goldenEntries(t)
	rows := readCSV(t, r)
	column := map[string]int{}
	for i, name := range rows[0] {
		column[name] = i
	}
	spent := map[[2]string]int64{}
	formulas := 0
	for _, row := range rows[1:] {
		n, err := strconv.ParseInt(row[column["spent"]], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		spent[[2]string{row[column["dimension"]], row[column["unit"]]}] += n
		for _, name := range []string{"key", "label", "period"} {
			cell := row[column[name]]
			if cell != "" && strings.Contains("=+-@\t\r\n", cell[:1]) {
				t.Errorf("a formula: %q", cell)
			}
			if strings.HasPrefix(cell, "'=") || strings.HasPrefix(cell, "'-") {
				formulas++
			}
		}
	}
	for _, total := range r.Totals {
		for _, d := range []string{"total", report.ByAgent, report.ByPrincipal, report.ByTarget, report.ByKind, report.ByDay} {
			if got := spent[[2]string{d, total.Unit}]; got != total.Spent || got == 0 {
				t.Errorf("%s %s: %d, total %d", d, total.Unit, got, total.Spent)
			}
		}
	}
	if formulas == 0 || !strings.Contains(render(t, r, report.FormatCSV), "\r\n") {
		t.Error("no name was guarded, or lines do not end as RFC 4180 says")
	}
}

// TestMemoryIsBounded: a million entries leave no more behind than their names
// and what is outstanding.
func TestMemoryIsBounded(t *testing.T) {
	a := aggregator(t, span(begin, begin.AddDate(0, 0, 31)))
	s := newStory(5, a.Add)
	s.found()
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	s.goOn(20_000, 1200*time.Millisecond)
	before := heap()
	s.goOn(1_000_000, 1200*time.Millisecond)
	s.lapsed = nil                         // the story's own
	grown := int64(heap()) - int64(before) //nolint:gosec // small
	// One in sixty of the reservations stays withheld and is remembered.
	if allowed := int64(a.Outstanding())*150 + 2<<20; grown > allowed {
		t.Errorf("%d bytes more, %d reservations are outstanding", grown, a.Outstanding())
	}
	r := a.Report()
	if r.Totals[0].Entries < 990_000 || len(render(t, r, report.FormatHTML)) > 1<<20 {
		t.Errorf("%+v", r.Totals[0])
	}
}

func TestRowsAreBounded(t *testing.T) {
	t.Parallel()
	a := aggregator(t, span(begin, begin.AddDate(0, 0, 1)))
	e := entryOf(1)
	for i := range report.RowsMax + 10 {
		e.Agent = strconv.Itoa(i)
		a.Add(&e, report.AsOf{})
	}
	r := a.Report()
	other, _ := r.Find(report.ByAgent, report.Other)
	if len(r.Rows[report.ByAgent]) != report.RowsMax+1 || len(r.Truncated) != 1 || r.Truncated[0] != report.ByAgent || other.Units[0].Spent != 10 {
		t.Errorf("%d rows, truncated %v, other %+v", len(r.Rows[report.ByAgent]), r.Truncated, other)
	}
}
