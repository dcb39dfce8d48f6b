package report

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"

	"tallystick/internal/money"
)

// Names of rows in the table beside the dimensions.
const (
	rowTotal = "total"
	rowLimit = "limit"
)

func csvHead() []string {
	head := []string{"dimension", "key", "label", "period", "unit", "cap", "adj", "remaining", "spent_usd", "held_usd"}
	for _, c := range columns() {
		head = append(head, c.name)
	}
	return head
}

// column is one figure of Sums.
type column struct {
	name string
	of   func(s *Sums) int64
}

func columns() []column {
	return []column{
		{"entries", func(s *Sums) int64 { return s.Entries }},
		{"reserved", func(s *Sums) int64 { return s.Reserved }},
		{"spent", func(s *Sums) int64 { return s.Spent }},
		{"returned", func(s *Sums) int64 { return s.Returned }},
		{"held", func(s *Sums) int64 { return s.Held }},
		{"withheld", func(s *Sums) int64 { return s.Withheld }},
		{"overruns", func(s *Sums) int64 { return s.Overruns }},
		{"overrun", func(s *Sums) int64 { return s.Overrun }},
		{"refusals", func(s *Sums) int64 { return s.Refusals }},
		{"overrun_refused", func(s *Sums) int64 { return s.OverrunRefused }},
		{"late_settles", func(s *Sums) int64 { return s.LateSettles }},
		{"late_settled", func(s *Sums) int64 { return s.LateSettled }},
		{"expiries", func(s *Sums) int64 { return s.Expiries }},
		{"expired", func(s *Sums) int64 { return s.Expired }},
		{"lapses", func(s *Sums) int64 { return s.Lapses }},
		{"lapsed", func(s *Sums) int64 { return s.Lapsed }},
		{"corrections", func(s *Sums) int64 { return s.Corrections }},
		{"corrected", func(s *Sums) int64 { return s.Corrected }},
		{"refunded", func(s *Sums) int64 { return s.Refunded }},
		{"disputed", func(s *Sums) int64 { return s.Disputed }},
		{"adjusted", func(s *Sums) int64 { return s.Adjusted }},
		{"cap_changes", func(s *Sums) int64 { return s.CapChanges }},
	}
}

// WriteCSV writes one table: the totals, every row of every dimension, and the
// limits, one line per unit. A line of a limit is its counters at the end.
func (r *Report) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	out.UseCRLF = true // RFC 4180
	if err := out.Write(csvHead()); err != nil {
		return err
	}
	for i := range r.Totals {
		if err := out.Write(csvSums(rowTotal, "", "", &r.Totals[i])); err != nil {
			return err
		}
	}
	for _, d := range Dimensions() {
		for _, row := range r.Rows[d] {
			for i := range row.Units {
				if err := out.Write(csvSums(d, row.Key, row.Label, &row.Units[i])); err != nil {
					return err
				}
			}
		}
	}
	for i := range r.Limits {
		if err := out.Write(csvLimit(&r.Limits[i])); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

func csvSums(dimension, key, label string, s *Sums) []string {
	cells := []string{dimension, guarded(key), guarded(label), "", s.Unit, "", "", "", usd(s.Unit, s.Spent), usd(s.Unit, s.Held)}
	for _, c := range columns() {
		cells = append(cells, number(c.of(s)))
	}
	return cells
}

func csvLimit(l *Limit) []string {
	limited, rest := "", "" // both empty without a cap
	if l.Cap != money.Uncapped {
		limited, rest = number(l.Cap), number(l.Remaining)
	}
	cells := []string{rowLimit, guarded(l.Pool), "", guarded(l.Period), l.Unit, limited, number(l.Adj), rest, usd(l.Unit, l.Spent), usd(l.Unit, l.Held)}
	for _, c := range columns() {
		switch c.name {
		case "spent":
			cells = append(cells, number(l.Spent))
		case "held":
			cells = append(cells, number(l.Held))
		case "withheld":
			cells = append(cells, number(l.Withheld))
		default:
			cells = append(cells, "")
		}
	}
	return cells
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

func usd(unit string, n int64) string {
	if unit != moneyUnit {
		return ""
	}
	return money.USD(n)
}

// guarded keeps a spreadsheet from taking a name for a formula: names come from
// agents. Figures are ours and stay numbers, negative ones too.
func guarded(name string) string {
	if name != "" && strings.ContainsRune("=+-@\t\r\n", rune(name[0])) {
		return "'" + name
	}
	return name
}
