package bench

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// Write prints the table for people.
func (r Report) Write(out io.Writer) error {
	fmt.Fprintf(out, "%d CPUs, Redis %s (AOF, fsync always), medians of %d windows of %s, %s in all.\n",
		r.CPUs, r.Redis, r.Windows, r.Window, r.Took.Round(time.Second))
	if r.LoadBefore != "" {
		fmt.Fprintf(out, "Load average before: %s; after: %s.\n", r.LoadBefore, r.LoadAfter)
	}
	fmt.Fprintln(out, "CPU is µs per decision: of the store (Redis, or Postgres in its row), of Tallystick with its NATS server, of the client.")
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprint(w, "\n\tCLIENTS\tPER SECOND\tTO RAW\tP50\tP99\tCPU STORE\tOWN\tCLIENT\tNOTE\n")
	group := ""
	for _, row := range r.Rows {
		if row.Group != group {
			group = row.Group
			fmt.Fprintf(w, "%s\n", strings.ToUpper(group))
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", row.Name, whole(float64(row.Clients)), whole(row.Rate),
			share(row.Ratio), latency(row.P50US), latency(row.P99US), tenth(row.StoreUS), tenth(row.OwnUS), tenth(row.ClientUS), row.Note)
	}
	if len(r.Findings) > 0 {
		fmt.Fprint(w, "\n\tVALUE\tGOAL\n")
	}
	for _, f := range r.Findings {
		fmt.Fprintf(w, "  %s\t%s\t%s\n", f.What, f.value(), f.Goal)
	}
	return w.Flush()
}

func (f Finding) value() string {
	if f.Unit == "×" {
		return fmt.Sprintf("%.2f", f.Value)
	}
	return strings.TrimSpace(whole(f.Value) + " " + f.Unit)
}

// whole writes thousands apart; nothing for zero.
func whole(v float64) string {
	if v == 0 {
		return ""
	}
	digits := fmt.Sprintf("%.0f", v)
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

func share(v float64) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", v)
}

func tenth(v float64) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f", v)
}

func latency(us float64) string {
	switch {
	case us == 0:
		return ""
	case us < 1000:
		return fmt.Sprintf("%.0f µs", us)
	default:
		return fmt.Sprintf("%.2f ms", us/1000)
	}
}
