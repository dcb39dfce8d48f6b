package events

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const (
	testOrg   = "acme"
	testAgent = "0192bbbb-0000-7000-8000-000000000002"
)

func TestAgentSubjectsRoundTrip(t *testing.T) {
	t.Parallel()
	for _, verb := range append(agentVerbs(), VerbRoute, VerbReport) {
		for door, build := range map[string]func(string, string, string) string{DoorRpc: Rpc, DoorCmd: Cmd} {
			org, agent, gotDoor, gotVerb, ok := ParseAgentSubject(build(testOrg, testAgent, verb))
			if !ok || org != testOrg || agent != testAgent || gotDoor != door || gotVerb != verb {
				t.Errorf("%s %s: %q %q %q %q %v", door, verb, org, agent, gotDoor, gotVerb, ok)
			}
		}
	}
	token := DecisionToken(VerbReserve, "k")
	if _, _, door, got, ok := ParseAgentSubject(Decision(testOrg, testAgent, token)); !ok || door != DoorDecision || got != token {
		t.Errorf("decision: %q %q %v", door, got, ok)
	}
	if org, agent, got, ok := ParseKeptDecision(KeptDecision(testOrg, testAgent, token)); !ok || org != testOrg || agent != testAgent || got != token {
		t.Errorf("kept decision: %q %q %q %v", org, agent, got, ok)
	}
	for _, bad := range []string{Decision(testOrg, testAgent, token), KeptDecision("Acme", testAgent, token), KeptDecision(testOrg, "x", token), KeptDecision(testOrg, testAgent, "x"), KeptDecisionsOf(testOrg), "tally.v1.decision"} {
		if org, agent, got, ok := ParseKeptDecision(bad); ok {
			t.Errorf("%s: %q %q %q", bad, org, agent, got)
		}
	}
	if org, id, ok := ParsePipelineConsumer(PipelineConsumer(testOrg, testAgent)); !ok || org != testOrg || id != testAgent {
		t.Errorf("consumer: %q %q %v", org, id, ok)
	}
	for _, bad := range []string{"reserver", "_" + testAgent, testOrg + "_x", testOrg + testAgent} {
		if org, id, ok := ParsePipelineConsumer(bad); ok {
			t.Errorf("%s: %q %q", bad, org, id)
		}
	}
	if got, want := Rpc(testOrg, testAgent, VerbReserve), "tally.v1.acme."+testAgent+".rpc.reserve"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestOtherSubjectsRoundTrip(t *testing.T) {
	t.Parallel()
	for _, verb := range adminVerbs() {
		if got, ok := ParseAdminSubject(Admin(verb)); !ok || got != verb {
			t.Errorf("admin %s: %q %v", verb, got, ok)
		}
	}
	for _, verb := range RoleVerbs(RoleAdmin) {
		if org, admin, got, ok := ParseOrgAdminSubject(OrgAdmin(testOrg, testAgent, verb)); !ok || org != testOrg || admin != testAgent || got != verb {
			t.Errorf("admin of an org, %s: %q %q %q %v", verb, org, admin, got, ok)
		}
	}
	for _, k := range LedgerKinds() {
		if org, kind, ok := ParseLedgerSubject(Ledger(testOrg, k.Kind)); !ok || org != testOrg || kind != k.Kind {
			t.Errorf("ledger %s: %q %q %v", k.Kind, org, kind, ok)
		}
	}
	for _, name := range eventTypes() {
		if org, got, ok := ParseEventSubject(Event(testOrg, name)); !ok || org != testOrg || got != name {
			t.Errorf("event %s: %q %q %v", name, org, got, ok)
		}
	}
	if org, verb, ok := ParseDeadSubject(Dead(testOrg, VerbSettle)); !ok || org != testOrg || verb != VerbSettle {
		t.Errorf("dead: %q %q %v", org, verb, ok)
	}
}

func TestForeignSubjects(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"", "tally.v1", "tally.v1.acme", "$JS.API.STREAM.DELETE.LEDGER", "tally.v2.acme." + testAgent + ".rpc.reserve",
		"tally.v1.Acme." + testAgent + ".rpc.reserve", "tally.v1.acme.x.rpc.reserve", "tally.v1.acme." + testAgent + ".rpc",
		"tally.v1.acme." + testAgent + ".rpc.", "tally.v1.acme." + testAgent + ".rpc.a.b", "tally.v1.acme." + testAgent + ".web.reserve",
		"tally.v1.acme." + testAgent + ".decision.reserve", "tally.v1.ledger." + testAgent + ".cmd.settle", "tally.v1.*." + testAgent + ".rpc.reserve",
	} {
		if _, _, _, _, ok := ParseAgentSubject(s); ok {
			t.Errorf("%q is taken for an agent's", s)
		}
	}
	if _, _, ok := ParseLedgerSubject("tally.v1.ledger.acme"); ok {
		t.Error("a ledger subject without kind")
	}
	if _, _, ok := ParseEventSubject("tally.v1.event.acme.a.b"); ok {
		t.Error("an event subject with one token too many")
	}
	if _, ok := ParseAdminSubject("tally.v1.admin.a.b"); ok {
		t.Error("an admin subject with one token too many")
	}
	for _, s := range []string{
		"", "tally.v1.admin.pool_set", "tally.v1.admin.acme." + testAgent, "tally.v1.admin.acme." + testAgent + ".", "tally.v1.admin.acme.x.pool_set",
		"tally.v1.admin.acme." + testAgent + ".a.b", "tally.v1.admin.*." + testAgent + ".pool_set", "tally.v1.admin.ledger." + testAgent + ".pool_set",
		"tally.v1.acme." + testAgent + ".rpc.reserve",
	} {
		if _, _, _, ok := ParseOrgAdminSubject(s); ok {
			t.Errorf("%q is taken for an admin's", s)
		}
	}
}

func TestDecisionToken(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.String().Draw(t, "key")
		sum := sha256.Sum256([]byte("settle\x00" + key))
		if got := DecisionToken(VerbSettle, key); got != hex.EncodeToString(sum[:])[:32] {
			t.Fatalf("%q: %s", key, got)
		}
	})
}

func TestNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat
	for _, c := range []struct {
		what  string
		valid func(string) bool
		yes   []string
		no    []string
	}{
		{
			"org", ValidOrg,
			[]string{"a", "0", "a-b", long("a", 32)},
			[]string{"", "-a", "A", "a.b", "a_b", "é", long("a", 33), "admin", "ledger", "event", "dead", "*", ">"},
		},
		{
			"agent", ValidAgent,
			[]string{testAgent},
			[]string{"", strings.ToUpper(testAgent), testAgent + "0", "{" + testAgent + "}", strings.ReplaceAll(testAgent, "-", "_")},
		},
		{
			"pool", ValidPool,
			[]string{"a", "a b", "a:b", "😀", "__proto__", "../", "%00", long("p", 64), "e\u0301", "\u00e9"},
			[]string{"", " a", "a ", "a\nb", "a\x00", "a\x7f", "a\u0085b", long("p", 65), long("é", 33), "\xff"},
		},
		{
			"unit", ValidUnit,
			[]string{"usd_microcents", "a", "a0", long("u", 32)},
			[]string{"", "_a", "0a", "A", "a-b", "a:b", long("u", 33), "__proto__"},
		},
		{
			"key", ValidKey,
			[]string{"k", "a:b", "ключ", "k{x}", "*", ">", "a.b.c", "😀", "a\tb", long("k", 255)},
			[]string{"", " k", "k ", "a\rb", "a\nb", "a\x00b", long("k", 256), "\xff", "\u00a0k"},
		},
		{"period", ValidPeriod, []string{"none", "month"}, []string{"", "Month", "0", "a b", long("m", 33)}},
	} {
		for _, v := range c.yes {
			if !c.valid(v) {
				t.Errorf("%s %q is refused", c.what, v)
			}
		}
		for _, v := range c.no {
			if c.valid(v) {
				t.Errorf("%s %q is taken", c.what, v)
			}
		}
	}
}

func TestCheckKey(t *testing.T) {
	t.Parallel()
	if e := CheckKey("k"); e != nil {
		t.Error(e)
	}
	for _, key := range []string{"", strings.Repeat("k", 256), " k"} {
		if e := CheckKey(key); e == nil || e.Code != CodeInvalidArgument || e.Field != HeaderKey {
			t.Errorf("%.10q: %v", key, e)
		}
	}
}

func TestParseTimeout(t *testing.T) {
	t.Parallel()
	for v, want := range map[string]int64{"": TimeoutDefaultMS, "1": 1, "1800000": TimeoutMaxMS} {
		if got, e := ParseTimeout(v); e != nil || got != want {
			t.Errorf("%q: %d %v", v, got, e)
		}
	}
	for _, v := range []string{"0", "-1", "1800001", "1.5", "1e3", "+5", " 5", "05", "0x10", "soon", "99999999999999999999"} {
		if _, e := ParseTimeout(v); e == nil || e.Field != HeaderTimeout {
			t.Errorf("%q: %v", v, e)
		}
	}
}
