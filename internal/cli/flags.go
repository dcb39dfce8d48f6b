package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// parseAmounts reads UNIT=N flags. N is a plain integer: no fraction, no
// exponent, so that what is typed is what is booked.
func parseAmounts(flag string, args []string) (map[string]int64, error) {
	m := make(map[string]int64, len(args))
	for _, a := range args {
		unit, n, ok := strings.Cut(a, "=")
		if !ok || unit == "" {
			return nil, usagef("--%s %q: want UNIT=N, for example usd_microcents=250000", flag, a)
		}
		v, err := parseCount(n)
		if err != nil {
			return nil, usagef("--%s %q: %v", flag, a, err)
		}
		if _, dup := m[unit]; dup {
			return nil, usagef("--%s names %s twice", flag, unit)
		}
		m[unit] = v
	}
	return m, nil
}

func parseCount(s string) (int64, error) {
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil || v < 0 {
		return 0, fmt.Errorf("%q is not a whole number", s)
	}
	return v, nil
}

// limitFlag is one --limit UNIT=CAP[/PERIOD].
type limitFlag struct {
	unit, period string
	cap          *int64
}

// parseLimit reads UNIT=CAP[/PERIOD]; CAP may be none.
func parseLimit(s string) (limitFlag, error) {
	unit, rest, ok := strings.Cut(s, "=")
	if !ok || unit == "" {
		return limitFlag{}, usagef("--limit %q: want UNIT=CAP or UNIT=CAP/PERIOD", s)
	}
	capText, period, _ := strings.Cut(rest, "/")
	l := limitFlag{unit: unit, period: period}
	if capText != "none" {
		n, err := parseCount(capText)
		if err != nil {
			return limitFlag{}, usagef("--limit %q: %v", s, err)
		}
		l.cap = &n
	}
	return l, checkPeriod(period)
}

// checkPeriod refuses what this release does not have yet.
func checkPeriod(period string) error {
	if period == "" || period == "none" {
		return nil
	}
	return usagef("period %q is not there yet: this release knows only none", period)
}

// slotFlag is one --slots N or PATTERN=N.
type slotFlag struct {
	Pattern string `json:"pattern"`
	Max     int64  `json:"max"`
}

func parseSlots(args []string) ([]slotFlag, error) {
	out := make([]slotFlag, 0, len(args))
	for _, a := range args {
		pattern, n := "*", a
		// The last = divides: a pattern may contain one.
		if i := strings.LastIndexByte(a, '='); i >= 0 {
			pattern, n = a[:i], a[i+1:]
		}
		v, err := parseCount(n)
		if err != nil || pattern == "" {
			return nil, usagef("--slots %q: want N or PATTERN=N", a)
		}
		out = append(out, slotFlag{pattern, v})
	}
	return out, nil
}

// parseLateWindow reads a duration, or period, which needs a period.
func parseLateWindow(s string) (int64, error) {
	if s == "period" {
		return 0, usagef("--late-window period is not there yet: it needs a period, and this release knows only none")
	}
	return parseMillis("late-window", s)
}

func parseMillis(flag, s string) (int64, error) {
	if s == "0" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || d%time.Millisecond != 0 {
		return 0, usagef("--%s %q: want a duration such as 90s, 10m or 1h", flag, s)
	}
	return d.Milliseconds(), nil
}

// parseLabels reads NAME=VALUE flags.
func parseLabels(args []string) (map[string]string, error) {
	m := make(map[string]string, len(args))
	for _, a := range args {
		k, v, ok := strings.Cut(a, "=")
		if !ok || k == "" {
			return nil, usagef("--label %q: want NAME=VALUE", a)
		}
		m[k] = v
	}
	return m, nil
}

// set tells whether the user gave a flag: absent differs from a default.
func set(cmd *cobra.Command, flag string) bool { return cmd.Flags().Changed(flag) }

// require marks flags that the same function has just declared.
func require(cmd *cobra.Command, flags ...string) {
	for _, f := range flags {
		// It fails for a flag that does not exist, and a test asks every
		// command for its required flags.
		_ = cmd.MarkFlagRequired(f)
	}
}
