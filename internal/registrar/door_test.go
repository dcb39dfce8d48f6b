package registrar_test

import (
	"encoding/json"
	"strings"
	"testing"

	"tallystick/internal/registry"
	"tallystick/internal/topology"
	"tallystick/internal/worker"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
	"tallystick/pkg/redisx"
)

// door asks as an agent.
func (w *world) door(agent, verb, key, body string) worker.Answer {
	w.t.Helper()
	answers := w.reg.Handle(w.t.Context(), []*worker.Request{{Org: w.org, Agent: agent, Verb: verb, Key: key, Body: []byte(body)}})
	return answers[0]
}

func (w *world) child(parent, key, body string) events.RegisterAnswer {
	w.t.Helper()
	var a events.RegisterAnswer
	answer := w.door(parent, events.VerbRegister, key, body)
	must(w.t, json.Unmarshal(answer.Body, &a))
	if a.Outcome != events.OutcomeRegistered {
		w.t.Fatalf("register: %s", answer.Body)
	}
	return a
}

// TestRegistrationGoesOnAfterACrash: a registrar that died between the script
// and KV has told nobody; the repeat under the same key finds the agent that
// was counted, and finishes it.
func TestRegistrationGoesOnAfterACrash(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.pool("p", 100)
	parent := w.agent("")
	body := `{"name":"x","budget":{"mode":"granted","caps":{"tokens":40}}}`
	q, e := events.DecodeRegister([]byte(body))
	if e != nil {
		t.Fatal(e)
	}
	lost := "01900000-0000-7000-8000-000000000001"
	_, _, err := w.store.Register(t.Context(), redisx.RegisterArgs{
		Registration: redisx.Registration{
			Org: w.org, Agent: lost, Name: "x", Parent: parent.Agent, Ancestors: []string{parent.Agent}, Root: parent.Root, Depth: 1,
			Pool: "agent:" + lost, PoolParent: "p", Granted: map[string]int64{"tokens": 40}, Fingerprint: q.Fingerprint(), CreatedAtMS: 1,
		},
		Execution: redisx.ExecutionID(w.org, parent.Agent, events.VerbRegister, "k"), ChildrenMax: 10, TreeMax: 10,
		Made: []redisx.PolicyLimit{{Unit: "tokens", Period: "none", Cap: 40, OnOverrun: "reject", State: "open"}},
	})
	must(t, err)
	for range 2 { // the second repeat finds it finished
		a := w.child(parent.Agent, "k", body)
		if a.Agent != lost || a.Pool != "agent:"+lost || a.Depth != 1 || a.Parent != parent.Agent {
			t.Fatalf("%+v", a)
		}
		org, agent, _, err := w.dir.Token(t.Context(), topology.TokenHash(a.Token))
		if err != nil || org != w.org || agent != lost {
			t.Errorf("its token leads to %s %s, %v", org, agent, err)
		}
	}
	path, err := w.dir.Path(t.Context(), w.org, "agent:"+lost)
	if err != nil || len(path) != 2 || *path[0].Limits[0].Cap != 40 {
		t.Errorf("%+v, %v", path, err)
	}
	must(t, w.reg.ApplyAll(t.Context())) // KV and Redis agree on the pool that the script made
}

// TestRevokeThatKVDoesNotKnow: the mark in Redis alone stops a whole subtree.
func TestRevokeThatKVDoesNotKnow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	limit := w.pool("p", 100)
	parent := w.agent("")
	child := w.child(parent.Agent, "k", `{"name":"x"}`)
	a, _, err := w.dir.Agent(t.Context(), w.org, parent.Agent)
	must(t, err)
	must(t, w.store.Revoke(t.Context(), redisx.RevokeArgs{Agent: identityOf(a), By: "test"}))
	if d := w.reserve(child.Agent, "r", limit, 1); d.Denial == nil || d.Denial.Reason != "revoked" {
		t.Errorf("%+v", d)
	}
	if got := string(w.door(child.Agent, events.VerbRegister, "k", `{"name":"y"}`).Body); got != `{"outcome":"denied","reason":"revoked"}` {
		t.Error(got)
	}
}

// TestGrantsAreFreeAgain: what a revoked or ended child was granted and has not
// spent can be granted and spent again, because nothing was moved.
func TestGrantsAreFreeAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	limit := w.pool("p", 100)
	parent := w.agent("")
	all := `{"name":"x","budget":{"mode":"granted","caps":{"tokens":100}}}`
	first, second := w.child(parent.Agent, "a", all), w.child(parent.Agent, "b", all)
	if first.Pool == second.Pool {
		t.Fatalf("%+v %+v", first, second)
	}
	w.door(parent.Agent, events.VerbRevoke, "r", `{"agent":"`+first.Agent+`"}`)
	w.child(parent.Agent, "c", all)
	if d := w.reserve(parent.Agent, "own", limit, 100); d.Denial != nil {
		t.Errorf("%+v", d.Denial)
	}
	if got := string(w.door(parent.Agent, events.VerbRegister, "d", strings.Replace(all, "100", "1", 1)).Body); !strings.Contains(got, `"budget.caps"`) {
		t.Errorf("granted out of nothing: %s", got)
	}
}

func identityOf(a registry.Agent) budget.Agent {
	return budget.Agent{Org: a.Org, ID: a.ID, Ancestors: a.Ancestors}
}
