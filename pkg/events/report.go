package events

import (
	"strings"
	"time"
)

// Formats of a report.
const (
	ReportJSON = "json"
	ReportCSV  = "csv"
	ReportHTML = "html"
)

// Bounds of reports.
const (
	MaxReportIDBytes = 160
	MaxZoneBytes     = 64
	MaxReportParts   = 1 << 20
)

// ReportMake asks for a report of an org from From up to, not including, To.
// Both are a day such as 2026-12-01, which begins at midnight of the zone, or a
// whole second; without them it is about the last 30 days.
type ReportMake struct {
	Org  string  `json:"org"`
	From *string `json:"from,omitempty"`
	To   *string `json:"to,omitempty"`
	Zone *string `json:"zone,omitempty"` // of the tz database; UTC
}

// DecodeReportMake reads a request strictly.
func DecodeReportMake(data []byte) (ReportMake, *Error) {
	var q ReportMake
	r, err := begin(data)
	if err != nil {
		return q, err
	}
	for m := r.object(""); m.next(); {
		switch string(m.name) {
		case "org":
			q.Org = m.org()
		case "from":
			q.From = new(m.moment())
		case "to":
			q.To = new(m.moment())
		case "zone":
			q.Zone = new(m.zone())
		default:
			m.unknown()
		}
	}
	r.need(q.Org != "", "org", "")
	if err := r.finish(); err != nil {
		return ReportMake{}, err
	}
	return q, nil
}

// moment reads a day or a whole second.
func (m *members) moment() string {
	path := m.field()
	v := m.r.text(path, 1, len("2006-01-02T15:04:05+00:00"))
	if _, err := ParseMoment(v, time.UTC); m.r.ok() && err != nil {
		m.r.fail(faultMeaning, path, "must be a day or a whole second", "Such as 2026-12-01 or 2026-12-01T08:00:00Z.")
	}
	return v
}

// ParseMoment reads a day, which begins at midnight of the zone, or a whole
// second.
func ParseMoment(v string, zone *time.Location) (time.Time, error) {
	if t, err := time.ParseInLocation(time.DateOnly, v, zone); err == nil {
		return t, nil
	}
	if strings.Contains(v, ".") { // which Parse would take
		return time.Time{}, InvalidArgument("", "not a whole second", "")
	}
	return time.Parse(time.RFC3339, v)
}

// zone reads a name of the tz database; whether there is such a zone is for
// who knows them all.
func (m *members) zone() string {
	path := m.field()
	v := m.r.text(path, 1, MaxZoneBytes)
	for part := range strings.SplitSeq(v, "/") {
		if m.r.ok() && !validZonePart(part) {
			m.r.fail(faultMeaning, path, "is no name of a time zone", "Such as UTC or Europe/Berlin.")
		}
	}
	return v
}

func validZonePart(v string) bool {
	for i := range len(v) {
		if c := v[i]; !lower(c) && !digit(c) && (c < 'A' || c > 'Z') && c != '_' && c != '+' && c != '-' {
			return false
		}
	}
	return v != "" && v != "Local"
}

// ReportList asks for an org's reports, in the order of their ids, which is
// that of their beginnings.
type ReportList struct {
	Org   string  `json:"org"`
	After *string `json:"after,omitempty"` // an id
	Limit *int64  `json:"limit,omitempty"`
}

// DecodeReportList reads a request strictly.
func DecodeReportList(data []byte) (ReportList, *Error) {
	var q ReportList
	r, err := begin(data)
	if err != nil {
		return q, err
	}
	for m := r.object(""); m.next(); {
		switch string(m.name) {
		case "org":
			q.Org = m.org()
		case "after":
			q.After = new(m.reportID())
		case "limit":
			q.Limit = new(m.integer(1, ListLimitMax))
		default:
			m.unknown()
		}
	}
	r.need(q.Org != "", "org", "")
	if err := r.finish(); err != nil {
		return ReportList{}, err
	}
	return q, nil
}

// ReportGet asks for one part of a report in a format; parts count from 0.
type ReportGet struct {
	Org    string `json:"org"`
	Report string `json:"report"`
	Format string `json:"format"`
	Part   *int64 `json:"part,omitempty"`
}

// DecodeReportGet reads a request strictly.
func DecodeReportGet(data []byte) (ReportGet, *Error) {
	var q ReportGet
	r, err := begin(data)
	if err != nil {
		return q, err
	}
	for m := r.object(""); m.next(); {
		switch string(m.name) {
		case "org":
			q.Org = m.org()
		case "report":
			q.Report = m.reportID()
		case "format":
			q.Format = m.oneOf(ReportJSON, ReportCSV, ReportHTML)
		case "part":
			q.Part = new(m.integer(0, MaxReportParts))
		default:
			m.unknown()
		}
	}
	r.need(q.Org != "", "org", "")
	r.need(q.Report != "", "report", "report list shows the ids.")
	r.need(q.Format != "", "format", "")
	if err := r.finish(); err != nil {
		return ReportGet{}, err
	}
	return q, nil
}

// reportID reads the name of a report. It becomes part of another name, so it
// has no dots and no slashes.
func (m *members) reportID() string {
	path := m.field()
	v := m.r.text(path, 1, MaxReportIDBytes)
	if m.r.ok() && (strings.Contains(v, "/") || strings.Contains(v, "+") || !validZonePart(v)) {
		m.r.fail(faultMeaning, path, "is no id of a report: letters, digits, _ and -", "")
	}
	return v
}
