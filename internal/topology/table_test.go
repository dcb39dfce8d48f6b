package topology

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"tallystick/pkg/events"
)

var update = flag.Bool("update", false, "write docs/rights.md anew")

const tableFile = "../../docs/rights.md"

// TestRightsTable: docs/rights.md is the table that the server enforces, so
// that a change of anybody's rights shows in the diff.
func TestRightsTable(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("# Who may publish and subscribe what\n\n" +
		"Written by a test from `internal/topology`; `go test ./internal/topology -run RightsTable -update` writes it anew. " +
		"Whatever is not listed is refused by the NATS server; tests try it (`TestRightsAreEnforced`, `TestEveryGuestTimesEverySubject`). " +
		"`subject queue` allows a subscription in that queue group alone; a deny wins.\n")
	section := func(title string, r Rights) {
		fmt.Fprintf(&b, "\n## %s\n\n", title)
		for _, list := range []struct {
			name  string
			words []string
		}{{"publish", r.Publish}, {"never", r.DenyPublish}, {"subscribe", r.Subscribe}} {
			if len(list.words) > 0 {
				fmt.Fprintf(&b, "- %s: `%s`\n", list.name, strings.Join(list.words, "` `"))
			}
		}
	}
	section("An agent, in AGENTS", AgentRights("ORG", "AGENT", "TOKENHASH"))
	section("A pipeline identity, in PIPELINES", PipelineRights("ORG", "PIPELINE", "TOKENHASH"))
	section("The operator, in ADMIN", OperatorRights("TOKENHASH"))
	section("An admin of an org, in ADMIN", AdminRights("ORG", "ADMIN", events.RoleAdmin, "TOKENHASH"))
	section("A viewer of an org, in ADMIN", AdminRights("ORG", "ADMIN", events.RoleViewer, "TOKENHASH"))
	section("An auditor of an org, in ADMIN", AdminRights("ORG", "ADMIN", events.RoleAuditor, "TOKENHASH"))
	for _, worker := range append(Workers(), Setup) {
		for _, account := range accountsOf(worker) {
			section("Worker "+worker+", in "+strings.ToUpper(account), RightsOf(worker, account))
		}
	}
	if *update {
		if err := os.WriteFile(tableFile, []byte(b.String()), 0o644); err != nil { //nolint:gosec // a document
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(tableFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != b.String() {
		t.Errorf("%s is not what the code says; run with -update and look at the diff", tableFile)
	}
}
