package cli

import (
	"maps"
	"slices"
	"strings"

	"tallystick/internal/money"
)

// amount shows an integer, with the dollars beside it where it is money.
func amount(unit string, n int64) string { return money.Amount(unit, n) }

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
