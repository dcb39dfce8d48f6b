package worker

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"tallystick/pkg/events"
)

func (r *rig) keepDecisions() {
	r.t.Helper()
	cfg := jetstream.StreamConfig{Name: events.StreamDecisions, Subjects: []string{events.AllDecisions}, AllowAtomicPublish: true}
	if _, err := r.js.CreateStream(r.t.Context(), cfg); err != nil {
		r.t.Fatal(err)
	}
}

// kept are the decisions in DECISIONS, by key.
func (r *rig) kept() map[string]*jetstream.RawStreamMsg {
	r.t.Helper()
	s, err := r.js.Stream(r.t.Context(), events.StreamDecisions)
	if err != nil {
		r.t.Fatal(err)
	}
	all := map[string]*jetstream.RawStreamMsg{}
	for seq := uint64(1); seq <= s.CachedInfo().State.LastSeq; seq++ {
		m, err := s.GetMsg(r.t.Context(), seq)
		if err != nil {
			r.t.Fatal(err)
		}
		all[m.Header.Get(events.HeaderTallyKey)] = m
	}
	return all
}

// Decisions are kept for orgs that ask for it, as published, in batches too.
func TestDecisionsAreKeptForWhoReadsThem(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.keepDecisions()
	gate := make(chan struct{})
	cfg := r.config(each(func(q *Request) Answer {
		<-gate // what follows gathers to one batch
		return Answer{Body: []byte(`{"outcome":"allowed","key":"` + q.Key + `"}`), Replayed: true}
	}))
	cfg.InFlight, cfg.KeepDecisions = 1, func(org string) bool { return org == "acme" }
	w, _ := r.run(cfg)
	decisions := r.decisions()
	if got := r.request(r.msg(events.Cmd("rival", r.agent, events.VerbReserve), "other", reserveBody)); code(got) != "" {
		t.Fatalf("%s", got.Data)
	}
	const n = 5
	for i := range n {
		r.cmd(events.VerbReserve, keyN(i))
	}
	close(gate)
	for range n {
		receive(t, decisions, "decision")
	}
	kept := r.kept()
	if len(kept) != n || metric(t, w, "decisions_kept_total", "") != n {
		t.Errorf("%d kept", len(kept))
	}
	for i := range n {
		m := kept[keyN(i)]
		if m == nil {
			t.Fatalf("%s is not kept", keyN(i))
		}
		org, agent, token, ok := events.ParseKeptDecision(m.Subject)
		if !ok || org != "acme" || agent != r.agent || token != events.DecisionToken("reserve", keyN(i)) {
			t.Errorf("kept under %s", m.Subject)
		}
		if m.Header.Get(events.HeaderVerb) != "reserve" || string(m.Data) != fmt.Sprintf(`{"outcome":"allowed","key":"k%d"}`, i) {
			t.Errorf("%v %s", m.Header, m.Data)
		}
	}
}

// What cannot be kept is not published and not acknowledged, and comes again;
// other orgs' decisions go out meanwhile.
func TestUnkeptDecisionsWait(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	h, _ := ledgered()
	cfg := r.config(h)
	cfg.KeepDecisions = func(org string) bool { return org == "acme" }
	w, _ := r.run(cfg)
	decisions := r.decisions()
	r.cmd(events.VerbReserve, "k")
	eventually(t, "not published", func() bool { return metric(t, w, "decisions_unpublished_total", "") > 0 })
	select {
	case m := <-decisions:
		t.Errorf("published before it was kept: %s", m.Data)
	default:
	}
	if r.unacknowledged() != 1 {
		t.Error("acknowledged before it was kept")
	}
	r.request(r.msg(events.Cmd("rival", r.agent, events.VerbReserve), "other", reserveBody))
	eventually(t, "the other org's is done", func() bool { return r.unacknowledged() == 1 })
	r.keepDecisions()
	receive(t, decisions, "decision")
	if r.kept()["k"] == nil {
		t.Error("published and not kept")
	}
	eventually(t, "acknowledged", func() bool { return r.unacknowledged() == 0 })
}
