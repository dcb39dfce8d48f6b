package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// table writes rows under headings, aligned, without trailing spaces.
type table struct {
	w    *tabwriter.Writer
	rows int
}

func newTable(w io.Writer, headings ...string) *table {
	t := &table{w: tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)}
	if len(headings) > 0 {
		t.line(headings)
	}
	return t
}

func (t *table) line(cells []string) {
	for i, c := range cells {
		cells[i] = strings.Map(printable, c)
	}
	fmt.Fprintln(t.w, strings.TrimRight(strings.Join(cells, "\t"), "\t "))
}

// row adds one line; every value is printed as text.
func (t *table) row(cells ...any) {
	text := make([]string, len(cells))
	for i, c := range cells {
		text[i] = fmt.Sprint(c)
		if text[i] == "" {
			text[i] = "-"
		}
	}
	t.rows++
	t.line(text)
}

func (t *table) flush() error { return t.w.Flush() }

// printable drops control characters: names come from other people, and a
// terminal obeys escape sequences.
func printable(r rune) rune {
	if r < 0x20 || r >= 0x7f && r < 0xa0 {
		return -1
	}
	return r
}

// printableText is text from elsewhere, line breaks kept.
func printableText(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' {
			return r
		}
		return printable(r)
	}, s)
}
