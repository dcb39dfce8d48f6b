package report

import (
	"cmp"
	"slices"
	"strings"

	"tallystick/pkg/budget"
)

// table is one dimension while it is added up. Row 0 takes what came after the
// table was full.
type table struct {
	rows []tableRow
	at   map[string]int32
	max  int
}

type tableRow struct {
	key   string
	units []Sums
}

func newTable(most int) *table {
	return &table{rows: make([]tableRow, 1), at: map[string]int32{}, max: most}
}

// row gives the index of a key's row.
func (t *table) row(key string) int32 {
	if i, ok := t.at[key]; ok {
		return i
	}
	if len(t.at) >= t.max {
		return 0
	}
	i := int32(len(t.rows)) //nolint:gosec // bounded by max
	key = strings.Clone(key)
	t.rows, t.at[key] = append(t.rows, tableRow{key: key}), i
	return i
}

// sums gives a row's figures in a unit.
func (t *table) sums(row int32, unit string) *Sums {
	r := &t.rows[row]
	for i := range r.units {
		if r.units[i].Unit == unit {
			return &r.units[i]
		}
	}
	r.units = append(r.units, Sums{Unit: unit})
	return &r.units[len(r.units)-1]
}

// book adds a delta to a row. What happened before the range changes what is
// held, and nothing else.
func (t *table) book(row int32, kind budget.Kind, d delta, inRange bool) {
	if !inRange && d.Held == 0 && d.Withheld == 0 {
		return
	}
	s := t.sums(row, d.unit)
	if inRange {
		s.add(kind, d)
	}
	s.Held += d.Held
	s.Withheld += d.Withheld
}

func (t *table) full() bool { return len(t.rows[0].units) > 0 }

// finish gives the rows in byte order; rows of which the range tells nothing
// and that hold nothing are left out.
func (t *table) finish(label func(key string) string) []Row {
	rows := []Row{}
	for i, r := range t.rows {
		units := slices.DeleteFunc(r.units, func(s Sums) bool { return s == Sums{Unit: s.Unit} })
		if len(units) == 0 {
			continue
		}
		slices.SortFunc(units, func(a, b Sums) int { return unitOrder(a.Unit, b.Unit) })
		row := Row{Key: r.key, Units: units}
		if i == 0 {
			row.Key = Other
		} else if label != nil {
			row.Label = label(r.key)
		}
		rows = append(rows, row)
	}
	slices.SortStableFunc(rows, func(a, b Row) int { return cmp.Compare(a.Key, b.Key) })
	return rows
}
