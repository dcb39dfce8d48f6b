package events

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

type asyncRef struct {
	Ref string `yaml:"$ref"`
}

type asyncDoc struct {
	AsyncAPI string `yaml:"asyncapi"`
	Channels map[string]struct {
		Address    *string             `yaml:"address"`
		Parameters map[string]asyncRef `yaml:"parameters"`
		Messages   map[string]asyncRef `yaml:"messages"`
	} `yaml:"channels"`
	Operations map[string]struct {
		Action  string   `yaml:"action"`
		Channel asyncRef `yaml:"channel"`
		Reply   *struct {
			Channel  asyncRef   `yaml:"channel"`
			Messages []asyncRef `yaml:"messages"`
		} `yaml:"reply"`
	} `yaml:"operations"`
	Components struct {
		Messages map[string]struct {
			Payload struct {
				Schema asyncRef `yaml:"schema"`
			} `yaml:"payload"`
		} `yaml:"messages"`
	} `yaml:"components"`
}

func asyncAPI(t *testing.T) (asyncDoc, any) {
	t.Helper()
	var doc asyncDoc
	var all any
	if err := yaml.Unmarshal(AsyncAPI(), &doc); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(AsyncAPI(), &all); err != nil {
		t.Fatal(err)
	}
	if doc.AsyncAPI != "3.0.0" {
		t.Fatalf("asyncapi %q", doc.AsyncAPI)
	}
	return doc, all
}

// Every reference inside the document leads somewhere.
func TestAsyncAPIReferences(t *testing.T) {
	t.Parallel()
	_, all := asyncAPI(t)
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, inner := range v {
				if ref, ok := inner.(string); ok && name == "$ref" {
					if err := resolve(all, ref); err != nil {
						t.Error(err)
					}
				}
				walk(inner)
			}
		case []any:
			for _, inner := range v {
				walk(inner)
			}
		}
	}
	walk(all)
}

func resolve(doc any, ref string) error {
	if name, ok := strings.CutPrefix(ref, "./schema/"); ok {
		_, err := Schema(strings.TrimSuffix(name, ".json"))
		return err
	}
	path, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return fmt.Errorf("reference %q", ref)
	}
	for part := range strings.SplitSeq(path, "/") {
		m, _ := doc.(map[string]any)
		if doc, ok = m[part]; !ok {
			return fmt.Errorf("%s: no %s", ref, part)
		}
	}
	return nil
}

// Every message is on a channel; a line of an export travels in files only.
func TestEveryMessageHasAChannel(t *testing.T) {
	t.Parallel()
	doc, _ := asyncAPI(t)
	used := map[string]bool{}
	for _, c := range doc.Channels {
		for name := range c.Messages {
			used[name] = true
		}
	}
	for _, m := range messages() {
		if got := doc.Components.Messages[m.name].Payload.Schema.Ref; got != "./schema/"+m.name+".json" {
			t.Errorf("%s: payload %q", m.name, got)
		}
		if !used[m.name] && m.name != "ledger_line" {
			t.Errorf("%s is on no channel", m.name)
		}
	}
	if got, want := len(doc.Components.Messages), len(messages()); got != want {
		t.Errorf("%d messages in the document, %d in the package", got, want)
	}
}

// The document's addresses are what the builders build, no more and no less.
func TestAsyncAPIAddresses(t *testing.T) {
	t.Parallel()
	doc, _ := asyncAPI(t)
	want := []string{
		OrgAdmin("{org}", "{admin}", "{verb}"), Decision("{org}", "{agent}", "{token}"), KeptDecision("{org}", "{agent}", "{token}"),
		Ledger("{org}", "{kind}"), Dead("{org}", "{verb}"),
	}
	for _, verb := range agentVerbs() {
		want = append(want, Rpc("{org}", "{agent}", verb))
		if BothDoors(verb) {
			want = append(want, Cmd("{org}", "{agent}", verb))
		}
	}
	for _, verb := range adminVerbs() {
		want = append(want, Admin(verb))
	}
	for _, name := range eventTypes() {
		want = append(want, Event("{org}", name))
	}
	var got []string
	for name, c := range doc.Channels {
		if c.Address == nil {
			if name != "inbox" {
				t.Errorf("%s has no address", name)
			}
			continue
		}
		got = append(got, *c.Address)
		if n := strings.Count(*c.Address, "{"); n != len(c.Parameters) {
			t.Errorf("%s: %d parameters, %d in the address", name, len(c.Parameters), n)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		t.Errorf("addresses\n got %v\nwant %v", got, want)
	}
}

// Every channel has an operation; what is received from a door or an operator
// is answered, with an error at least.
func TestAsyncAPIOperations(t *testing.T) {
	t.Parallel()
	doc, _ := asyncAPI(t)
	done := map[string]bool{"inbox": true}
	for name, op := range doc.Operations {
		channel := strings.TrimPrefix(op.Channel.Ref, "#/channels/")
		done[channel] = true
		if (op.Action == "receive") != (op.Reply != nil) {
			t.Errorf("%s: %s with reply %v", name, op.Action, op.Reply)
		}
		if op.Reply != nil && !slices.Contains(op.Reply.Messages, asyncRef{"#/channels/inbox/messages/error"}) {
			t.Errorf("%s cannot answer an error", name)
		}
	}
	for name := range maps.Keys(doc.Channels) {
		if !done[name] {
			t.Errorf("channel %s has no operation", name)
		}
	}
}

func agentVerbs() []string {
	return []string{
		VerbReserve, VerbSettle, VerbRelease, VerbExtend, VerbCharge,
		VerbBalance, VerbReservation, VerbWhoami, VerbRegister, VerbRevoke,
	}
}

func adminVerbs() []string {
	return []string{
		AdminOrgCreate, AdminOrgSet, AdminOrgShow, AdminPoolCreate, AdminPoolSet, AdminPoolFreeze, AdminPoolUnfreeze, AdminPoolClose,
		AdminPoolShow, AdminAgentRegister, AdminAgentList, AdminAgentShow, AdminAgentRevoke, AdminAgentRotate,
		AdminAdminAdd, AdminAdminList, AdminAdminSet, AdminAdminRemove, AdminAdminRotate,
		AdminPipelineCreate, AdminPipelineList, AdminPipelineRemove,
		AdminPrincipalCreate, AdminPrincipalSet, AdminPrincipalList, AdminPrincipalShow, AdminPrincipalBalance,
		AdminSettle, AdminRelease, AdminLedger, AdminCheckpoint, AdminReconcile, AdminRebuild, AdminAcceptLoss, AdminLedgerCorrect,
		AdminReportMake, AdminReportList, AdminReportGet,
		AdminEvidencePut, AdminEvidenceGet, AdminEvidenceList,
	}
}

func eventTypes() []string {
	return []string{
		EventReservationExpired, EventDrift, EventSettleUnmatched, EventDenials, EventLedgerHead, EventPartitionRebuilt, EventReportReady,
		EventLedgerRefilled, EventLedgerHalted, EventLedgerConfigDrift,
	}
}
