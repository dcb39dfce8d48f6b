package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// entry is what tests look at of a ledger entry.
type entry struct {
	Kind, Execution, Agent, Key string
	Action, Subject, By, Why    string
	At                          time.Time
}

// lawful: the ledger verifies and counters are what it says.
func (s *system) lawful(org string) {
	s.Helper()
	s.eventually("drift 0", 20*time.Second, func() error {
		doc, code, text := s.run("reconcile", "--once", "--org", org)
		if code != 0 || doc["verdict"] != "ok" {
			return fmt.Errorf("reconcile: exit %d: %s", code, text)
		}
		return nil
	})
	doc, code, text := s.run("ledger", "verify", "--org", org)
	if code != 0 || doc["verdict"] != "ok" {
		s.Fatalf("verify: exit %d: %s", code, text)
	}
}

// entries are what the ledger has of an org now, or what more asks for of it.
func (s *system) entries(org string, more ...string) []entry {
	s.Helper()
	raw, _ := json.Marshal(s.must(append([]string{"ledger", "list", "--org", org}, more...)...)["entries"])
	var lines []struct{ Body string }
	if err := json.Unmarshal(raw, &lines); err != nil {
		s.Fatal(err)
	}
	all := make([]entry, len(lines))
	for i, l := range lines {
		if err := json.Unmarshal([]byte(l.Body), &all[i]); err != nil {
			s.Fatalf("entry %s: %v", l.Body, err)
		}
	}
	return all
}

// kinds waits until the ledger has every entry of an agent, the last of which
// is the charge that it makes here, and lists the others' kinds.
func (a *agent) kinds() []string {
	a.Helper()
	const last = "the last"
	a.eventually("the last charge", 20*time.Second, func() error {
		if out := a.call("charge", last, object{"actual": usd(1), "incurred": true}); told(out) != "charged" {
			return fmt.Errorf("%v", out)
		}
		return nil
	})
	var kinds []string
	a.eventually("the last entry", 20*time.Second, func() error {
		kinds = kinds[:0]
		for _, e := range a.entries(a.Org) {
			switch {
			case e.Agent != a.Agent || e.Kind == "agent_registered":
			case e.Key == last:
				return nil
			default:
				kinds = append(kinds, e.Kind)
			}
		}
		return fmt.Errorf("%d entries", len(kinds))
	})
	slices.Sort(kinds)
	return kinds
}
