package redisx

import (
	"fmt"
	"strings"
	"testing"

	"tallystick/pkg/budget"
)

func TestAdminister(t *testing.T) {
	t.Parallel()
	administer := func(b *bench, why string) string {
		err := b.store.Administer(b.Context(), AdministerArgs{Org: b.org, Action: "admin_remove", By: "operator", Why: why, Subject: "ada"})
		return told(budget.Decision{}, err)
	}
	runRows(t, []row{
		{"fenced", func(b *bench) string {
			defer b.fence()()
			return administer(b, "")
		}, "unavailable", "entries "},
		{"as often as it is done", func(b *bench) string {
			administer(b, "")
			administer(b, "")
			return b.details("administered")
		}, `{"action":"admin_remove","by":"operator","subject":"ada"} {"action":"admin_remove","by":"operator","subject":"ada"}`, "entries administered administered"},
		{"a reason cannot break a line", func(b *bench) string {
			administer(b, "\"quoted\"\n<b> é")
			return b.details("administered")
		}, `{"action":"admin_remove","by":"operator","why":"\"quoted\"\n\u003cb\u003e é","subject":"ada"}`, "entries administered"},
	})
}

// details are those of the entries of a kind.
func (b *bench) details(kind budget.Kind) string {
	var out []string
	for _, e := range b.entries() {
		if e.Kind == kind {
			out = append(out, string(e.Detail))
		}
	}
	return strings.Join(out, " ")
}

// Who and why stand in the entries of a settle and a release by an admin, and
// an agent cannot bring them in.
func TestByAndWhyOfResolution(t *testing.T) {
	t.Parallel()
	runRows(t, []row{
		{
			"an admin settles, an agent cannot say who it is", func(b *bench) string {
				l := b.pool("p", PolicyLimit{Cap: 100})
				byAdmin := b.settleArgs(b.hold(1, l), 1)
				byAdmin.Operator, byAdmin.By, byAdmin.Why = true, "ada", "it hangs"
				byAgent := b.settleArgs(b.hold(1, l), 1)
				byAgent.By = "ada"
				b.settle(byAdmin)
				b.settle(byAgent)
				got := b.details("settled")
				return fmt.Sprint(strings.Contains(got, `"by":"ada","why":"it hangs"`), strings.Contains(got, `"by":"`+b.agent.ID+`","settle_key"`))
			}, "true true",
			"opened p; p cap 100 held 0 spent 2 withheld 0; record settled 24h; record settled 24h; entries policy_changed reserved reserved settled settled",
		},
	})
}
