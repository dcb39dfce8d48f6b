package reconciler

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"tallystick/pkg/events"
)

func differs(org string, pools ...string) events.OrgReport {
	o := events.OrgReport{Org: org}
	for _, pool := range pools {
		o.Drift = append(o.Drift, events.DriftRow{Pool: pool, Unit: "tokens", Period: "none", Counter: "held", Drift: 1})
	}
	return o
}

// TestAlarmsOnWhatLasts: whatever comparisons show, an org's alarm begins when
// one counter has differed in three of them, ends with the first that is
// clean, and is told once at each end.
func TestAlarmsOnWhatLasts(t *testing.T) {
	t.Parallel()
	tolerance, err := PublishedTolerance()
	if err != nil {
		t.Fatal(err)
	}
	k := tolerance.Sustained.Comparisons
	rapid.Check(t, func(t *rapid.T) {
		a := newAlarms(tolerance)
		var history [][]string
		for range rapid.IntRange(1, 30).Draw(t, "comparisons") {
			pools := rapid.SampledFrom([][]string{nil, {"a"}, {"b"}, {"a", "b"}}).Draw(t, "pools")
			history = append(history, pools)
			was := a.raised["acme"]
			due, over := a.look(events.ReconcileAnswer{Orgs: []events.OrgReport{differs("acme", pools...), differs("calm")}})
			lasts := slices.ContainsFunc([]string{"a", "b"}, func(pool string) bool {
				last := history[max(0, len(history)-k):]
				return len(last) == k && !slices.ContainsFunc(last, func(p []string) bool { return !slices.Contains(p, pool) })
			})
			if got, want := len(due) == 1, lasts && !was; got != want {
				t.Fatalf("%v: due %v, want %v", history, due, want)
			}
			if got, want := len(over) == 1, len(pools) == 0 && was; got != want {
				t.Fatalf("%v: over %v, want %v", history, over, want)
			}
			for _, o := range due {
				a.raised[o.Org] = true
			}
			for _, o := range over {
				delete(a.raised, o.Org)
			}
			if want := len(pools) > 0 && !a.raised["acme"]; a.suspects() != want {
				t.Fatalf("%v: suspects %v", history, a.suspects())
			}
		}
	})
}

func TestAlarmOfAnOrgThatIsGone(t *testing.T) {
	t.Parallel()
	tolerance, err := PublishedTolerance()
	if err != nil {
		t.Fatal(err)
	}
	a := newAlarms(tolerance)
	a.raised["acme"] = true
	due, over := a.look(events.ReconcileAnswer{})
	if fmt.Sprint(due) != "[]" || len(over) != 1 || over[0].Org != "acme" {
		t.Errorf("due %v, over %v", due, over)
	}
}
