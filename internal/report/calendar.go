package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // zones are known wherever this runs
)

// RangeMax bounds a report.
const RangeMax = 10 * 366 * 24 * time.Hour

// hourly is the longest range that is shown by the hour.
const hourly = 72 * time.Hour

// Steps of a series.
const (
	StepHour = "hour"
	StepDay  = "day"
)

// calendar cuts a range into steps. Entries come in the order of time, so the
// step of the last one is mostly that of the next.
type calendar struct {
	edges []time.Time // where each step begins, and the end of the last
	last  int
}

// at gives the step of a time; -1 before the first, len(steps) after the last.
func (c *calendar) at(t time.Time) int {
	if !t.Before(c.edges[c.last]) && t.Before(c.edges[c.last+1]) {
		return c.last
	}
	if t.Before(c.edges[0]) {
		return -1
	}
	i, exact := slices.BinarySearchFunc(c.edges, t, time.Time.Compare)
	if !exact {
		i--
	}
	if i < len(c.edges)-1 {
		c.last = i
	}
	return i
}

// steps is how many there are.
func (c *calendar) steps() int { return len(c.edges) - 1 }

// days cuts a range at each midnight of its zone, which is 23 or 25 hours after
// the last one twice a year.
func days(from, to time.Time, zone *time.Location) calendar {
	edges := []time.Time{from}
	y, m, d := from.In(zone).Date()
	for n := 1; ; n++ {
		next := time.Date(y, m, d+n, 0, 0, 0, 0, zone)
		if !next.Before(to) {
			break
		}
		if next.After(from) {
			edges = append(edges, next)
		}
	}
	return calendar{edges: append(edges, to)}
}

// hours cuts a range at each full hour after its beginning.
func hours(from, to time.Time) calendar {
	edges := []time.Time{from}
	for next := from.Truncate(time.Hour).Add(time.Hour); next.Before(to); next = next.Add(time.Hour) {
		edges = append(edges, next)
	}
	return calendar{edges: append(edges, to)}
}

// Range is what a report is about: [From, To), whole seconds, in days of Zone.
type Range struct {
	From, To time.Time
	Zone     *time.Location
}

// Day is the day that began n days after the one of t.
func Day(t time.Time, n int, zone *time.Location) time.Time {
	y, m, d := t.In(zone).Date()
	return time.Date(y, m, d+n, 0, 0, 0, 0, zone)
}

// Check explains what is wrong with a range.
func (r Range) Check() error {
	switch {
	case r.Zone == nil:
		return fmt.Errorf("no zone")
	case !r.From.Before(r.To):
		return fmt.Errorf("from must be before to")
	case r.To.Sub(r.From) > RangeMax:
		return fmt.Errorf("at most ten years")
	case r.From.Nanosecond() != 0 || r.To.Nanosecond() != 0:
		return fmt.Errorf("times must be whole seconds")
	}
	return nil
}

// Prefix begins the ids of all reports of this range.
func (r Range) Prefix() string {
	const form = "20060102T150405Z"
	return r.From.UTC().Format(form) + "_" + r.To.UTC().Format(form) + "_"
}

// ID names a report of this range as of an entry: the same range of the same
// ledger has the same name. It is fit for a file's name.
func (r Range) ID(seq uint64) string {
	id := r.Prefix() + strconv.FormatUint(seq, 10)
	if r.Zone != time.UTC {
		id += "_" + strings.NewReplacer("/", "-", "+", "p").Replace(r.Zone.String())
	}
	return id
}
