package events

import (
	"fmt"
	"testing"
)

// TestSeedAttackForgedDepth: a child that says itself who and where it is, in
// whatever spelling, is refused and told which field it was. Nothing of it can
// reach a script: what the registrar issues has no such source.
func TestSeedAttackForgedDepth(t *testing.T) {
	t.Parallel()
	for _, field := range []string{
		"agentId", "agent_id", "agent-id", "AgentID", "AGENTID", "agentID", "AGENT_ID", "_agentId", "agent__id", "agent.id", "agent id", "agent:Id", " agentId",
		"parentId", "parent_id", "parent-id", "ParentID", "PARENT_ID", "parent", "Parent",
		"rootId", "root_id", "root-id", "RootID", "ROOTID", "root", "ROOT",
		"depth", "Depth", "DEPTH", "_depth", "de_pth", "dePth",
		"budgetKey", "budget_key", "budget-key", "BudgetKey", "BUDGET_KEY", "budgetkey",
	} {
		for _, value := range []string{`"x"`, `0`, `null`, `{}`, `[1]`, `-1`} {
			for _, body := range []string{`{"name":"n",%q:%s}`, `{%[1]q:%[2]s,"name":"n","ttl_ms":1000}`} {
				refusesForged(t, fmt.Sprintf(body, field, value), field)
			}
		}
	}
	// Escapes are another spelling of the same name.
	refusesForged(t, `{"name":"n","d\u0065pth":0}`, "depth")
	refusesForged(t, `{"name":"n","\u0061gentId":"x"}`, "agentId")
	refusesForged(t, `{"name":"n","budget\u005fkey":"x"}`, "budget_key")
}

func refusesForged(t *testing.T, body, field string) {
	t.Helper()
	q, err := DecodeRegister([]byte(body))
	if err == nil || err.Code != CodeBrokerArgument || err.Field != field || err.Retryable {
		t.Errorf("%s: read as %+v, %v", body, q, err)
	}
	if q != (Register{}) {
		t.Errorf("%s: something of it was kept: %+v", body, q)
	}
}
