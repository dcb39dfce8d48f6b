package client

import (
	"testing"

	"github.com/nats-io/nats.go"

	"tallystick/pkg/events"
)

// What arrives is taken only from the pipeline's own consumer and org; an
// answer may have been sent astray by a stranger in the same account.
func TestDecisionIsReadFromItsOwnConsumer(t *testing.T) {
	t.Parallel()
	const id, agent = "5b1c4a2e-7d10-4f6b-9c3a-2f8e1d0b7a66", "0199aaaa-0000-7000-8000-000000000001"
	p := &Pipeline{org: "acme", consumer: events.PipelineConsumer("acme", id)}
	token := events.DecisionToken("reserve", "k")
	mine, reply := events.KeptDecision("acme", agent, token), "$JS.ACK.DECISIONS.acme_"+id+".1.1.1.1.0"
	read := func(subject, reply, body string) (Decision, bool) {
		m := nats.NewMsg(subject)
		m.Reply, m.Data = reply, []byte(body)
		m.Header.Set(events.HeaderTallyKey, "k")
		m.Header.Set(events.HeaderVerb, "reserve")
		return p.decision(m)
	}
	for _, r := range []string{reply, "$JS.ACK._.hash.DECISIONS.acme_" + id + ".1.1.1.1.0.x"} {
		d, ok := read(mine, r, `{"outcome":"denied","reason":"debt"}`)
		if !ok || d.Org != "acme" || d.Agent != agent || d.Key != "k" || d.Verb != "reserve" || d.Outcome != "denied" || d.Reason != "debt" || d.Err != nil {
			t.Errorf("%+v %v", d, ok)
		}
	}
	if d, ok := read(mine, reply, `{"error":{"code":"not_found","message":"m"}}`); !ok || d.Err == nil || d.Err.Code != events.CodeNotFound {
		t.Errorf("%+v %v", d, ok)
	}
	if d, ok := read(mine, reply, `broken`); !ok || d.Err == nil {
		t.Errorf("%+v %v", d, ok)
	}
	for _, row := range [][2]string{
		{events.KeptDecision("rival", agent, token), reply},
		{mine, "$JS.ACK.DECISIONS.rival_" + id + ".1.1.1.1.0"},
		{mine, "_INBOX." + id + ".DECISIONS.acme_" + id + ".x"},
		{mine, ""},
		{"_INBOX." + id + ".x", reply},
		{events.Decision("acme", agent, token), reply},
	} {
		if d, ok := read(row[0], row[1], `{"outcome":"allowed"}`); ok {
			t.Errorf("%v: taken for %+v", row, d)
		}
	}
}
