package cli

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"tallystick/pkg/budget"
)

// microcents is the unit that people read as dollars: 1e-8 USD.
const (
	microcents       = "usd_microcents"
	microcentsPerUSD = 100_000_000
)

// uncapped is what a limit without a cap stores.
const uncapped = budget.MaxAmount

// amount shows an integer, with the dollars beside it where it is money:
// people think in dollars, and the ledger counts integers.
func amount(unit string, n int64) string {
	if n == uncapped {
		return "none"
	}
	s := grouped(n)
	if unit == microcents {
		s += " (" + dollars(n) + ")"
	}
	return s
}

// dollars writes microcents exactly, never through a float: at least cents,
// and as many decimals as are not zero.
func dollars(n int64) string {
	sign := ""
	u := uint64(n)
	if n < 0 {
		sign, u = "-", -u
	}
	frac := strings.TrimRight(fmt.Sprintf("%08d", u%microcentsPerUSD), "0")
	for len(frac) < 2 {
		frac += "0"
	}
	return sign + "$" + grouped(int64(u/microcentsPerUSD)) + "." + frac
}

// grouped writes 1234567 as 1,234,567.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	digits := strings.TrimPrefix(s, "-")
	var b strings.Builder
	b.WriteString(s[:len(s)-len(digits)])
	for i, d := range []byte(digits) {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteByte(d)
	}
	return b.String()
}

// amounts shows a set of amounts in byte order of the units.
func amounts(m map[string]int64) string {
	parts := make([]string, 0, len(m))
	for _, unit := range sortedKeys(m) {
		parts = append(parts, unit+" "+amount(unit, m[unit]))
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, ", ")
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
