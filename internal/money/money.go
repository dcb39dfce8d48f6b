// Package money shows amounts to people: whole numbers, grouped, with exact
// dollars beside them where the unit is money. Nothing goes through a float.
package money

import (
	"fmt"
	"strconv"
	"strings"

	"tallystick/pkg/budget"
)

// Microcents is the unit that people read as dollars: 1e-8 USD.
const (
	Microcents = "usd_microcents"
	PerUSD     = 100_000_000
)

// Uncapped is what a limit without a cap stores.
const Uncapped = budget.MaxAmount

// Amount shows an integer, with the dollars beside it where it is money:
// people think in dollars, and the ledger counts integers.
func Amount(unit string, n int64) string {
	if n == Uncapped {
		return "none"
	}
	s := Grouped(n)
	if unit == Microcents {
		s += " (" + Dollars(n) + ")"
	}
	return s
}

// Dollars writes microcents exactly: at least cents, and as many decimals as
// are not zero.
func Dollars(n int64) string {
	sign, whole, frac := split(n)
	return sign + "$" + Grouped(whole) + "." + frac
}

// USD is Dollars for machines: no sign of currency, no groups.
func USD(n int64) string {
	sign, whole, frac := split(n)
	return sign + strconv.FormatInt(whole, 10) + "." + frac
}

func split(n int64) (sign string, whole int64, frac string) {
	u := uint64(n)
	if n < 0 {
		sign, u = "-", -u
	}
	frac = strings.TrimRight(fmt.Sprintf("%08d", u%PerUSD), "0")
	for len(frac) < 2 {
		frac += "0"
	}
	return sign, int64(u / PerUSD), frac //nolint:gosec // below 2^63/1e8
}

// Grouped writes 1234567 as 1,234,567.
func Grouped(n int64) string {
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
