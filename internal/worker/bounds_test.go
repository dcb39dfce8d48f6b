package worker

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"tallystick/pkg/events"
)

func TestFullStreamIsOverloaded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := r.config(each(func(*Request) Answer { return Answer{Retry: time.Hour} }))
	r.run(cfg)
	s := mustStream(r).CachedInfo().Config
	s.MaxMsgs = 5
	if _, err := r.js.UpdateStream(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	var accepted int
	for i := range 8 {
		switch m := r.cmd(events.VerbReserve, keyN(i)); {
		case string(m.Data) == `{"outcome":"accepted"}`:
			accepted++
		case code(m) != "overloaded":
			t.Errorf("answer %s", m.Data)
		}
	}
	if accepted != 5 {
		t.Errorf("%d accepted", accepted)
	}
	// The same for a batch: all or none, and said so.
	inbox := r.nc.NewInbox()
	answers := make(chan *nats.Msg, 64)
	if _, err := r.nc.ChanSubscribe(inbox, answers); err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		m := r.msg(events.Cmd("acme", r.agent, events.VerbReserve), fmt.Sprint("b", i), reserveBody)
		m.Reply = inbox
		if err := r.nc.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	for range 50 {
		if m := receive(t, answers, "answer"); code(m) != "overloaded" {
			t.Errorf("answer %s", m.Data)
		}
	}
}

func TestIntakeWithoutJetStreamIsUnavailable(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := r.config(echo)
	cfg.PublishTimeout = 100 * time.Millisecond
	w, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.js.DeleteStream(t.Context(), events.StreamCommands); err != nil {
		t.Fatal(err)
	}
	inbox := r.nc.NewInbox()
	answers := make(chan *nats.Msg, 8)
	if _, err := r.nc.ChanSubscribe(inbox, answers); err != nil {
		t.Fatal(err)
	}
	if err := r.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { w.runIntake(context.Background()); close(done) }()
	for i, n := range []int{1, 3} { // a plain publish, and a batch
		for range n {
			m := r.msg(events.Cmd("acme", r.agent, events.VerbReserve), keyN(i), reserveBody)
			m.Reply = inbox
			w.onCommand(m)
		}
		for range n {
			if m := receive(t, answers, "answer"); code(m) != "unavailable" {
				t.Errorf("answer %s", m.Data)
			}
		}
	}
	w.intake.close()
	receive(t, done, "end of the intake")
}

func TestAgentCannotQueueMoreThanItsBound(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var out atomic.Bool
	out.Store(true)
	cfg := r.config(each(func(*Request) Answer {
		if out.Load() {
			return Answer{Retry: 50 * time.Millisecond}
		}
		return Answer{Body: []byte(`{}`)}
	}))
	cfg.AgentMax = 10
	w, _ := r.run(cfg)
	decisions := r.decisions()
	for i := range 12 {
		want := ""
		if i >= 10 {
			want = "overloaded"
		}
		if m := r.cmd(events.VerbReserve, keyN(i)); code(m) != want {
			t.Errorf("command %d: %s", i, m.Data)
		}
	}
	out.Store(false)
	for range 10 {
		receive(t, decisions, "decision")
	}
	if m := r.cmd(events.VerbReserve, "later"); code(m) != "" {
		t.Errorf("after the outage: %s", m.Data)
	}
	eventually(t, "backlog empty", w.backlog.idle)
}

func TestBacklogFollowsWhatOthersFinish(t *testing.T) {
	t.Parallel()
	b := newBacklog(2)
	cmds := []*command{{who: "a"}, {who: "a"}}
	for range cmds {
		if !b.admit("a") {
			t.Fatal("not admitted")
		}
	}
	b.decided([]*delivery{{seq: 7}}) // decided before the intake heard of it
	b.stored(8, cmds)                // 7 and 8
	if !b.admit("a") || b.admit("a") {
		t.Error("7 is released, 8 is not")
	}
	b.passed(8)
	if !b.admit("a") || !b.idle() {
		t.Error("8 is released by the floor")
	}
}

func TestCommandsArePurged(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := r.config(echo)
	cfg.PurgeConsumers, cfg.PurgeEvery = []string{events.ConsumerReserver, events.ConsumerSettler}, 20*time.Millisecond
	r.run(cfg)
	for i := range 20 {
		r.cmd(events.VerbReserve, keyN(i))
	}
	eventually(t, "purged", func() bool {
		s := mustStream(r).CachedInfo().State
		return s.Msgs == 0 && s.FirstSeq == 21
	})
	// What the other role has not done stays, and all behind it.
	m := r.msg(events.Command("acme", r.agent, events.VerbSettle), "", "{}")
	if _, err := r.js.PublishMsg(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		r.cmd(events.VerbReserve, keyN(i))
	}
	eventually(t, "acknowledged", func() bool { return r.unacknowledged() == 0 })
	ticks := time.NewTicker(40 * time.Millisecond)
	defer ticks.Stop()
	for range 3 {
		<-ticks.C
	}
	if s := mustStream(r).CachedInfo().State; s.FirstSeq != 21 || s.Msgs != 21 {
		t.Errorf("purged too far: %+v", s)
	}
}

// TestDenialsAreTold: a minute's denials of an agent and reason are one event.
func TestDenialsAreTold(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := r.config(each(func(*Request) Answer {
		return Answer{Body: []byte(`{"outcome":"denied"}`), Denied: events.ReasonBudgetExceeded}
	}))
	cfg.DenialsEvery = 50 * time.Millisecond
	told := make(chan *nats.Msg, 64)
	if _, err := r.js.Conn().ChanSubscribe(events.AllEvents, told); err != nil {
		t.Fatal(err)
	}
	r.run(cfg)
	const asked = 5
	for i := range asked {
		r.rpc(events.VerbReserve, keyN(i))
	}
	counted, deadline := int64(0), time.After(waitMax)
	for counted < asked {
		select {
		case m := <-told:
			e, err := events.ParseEvent(m.Data)
			d, ok := e.(events.Denials)
			if err != nil || !ok || d.Agent != r.agent || d.Reason != events.ReasonBudgetExceeded {
				t.Fatalf("event %s: %v", m.Data, err)
			}
			counted += d.Count
		case <-deadline:
			t.Fatalf("%d of %d denials were told", counted, asked)
		}
	}
}
