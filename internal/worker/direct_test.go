package worker

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"tallystick/internal/testkit"
	"tallystick/pkg/events"
)

func TestDirectDoorAnswers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.run(r.config(each(func(q *Request) Answer {
		switch q.Key {
		case "again":
			return Answer{Body: []byte(`{}`), Replayed: true}
		case "bad":
			return ErrorAnswer(events.NotFound("pool"))
		}
		seen, _ := json.Marshal([]string{q.Door.String(), q.Org, q.Agent, q.Verb, q.Key, q.Trace, string(q.Body)})
		return Answer{Body: seen}
	})))

	m := r.msg(events.Rpc("acme", r.agent, events.VerbReserve), "k", "body")
	m.Header.Set(events.HeaderTrace, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	want, _ := json.Marshal([]string{"direct", "acme", r.agent, "reserve", "k", m.Header.Get(events.HeaderTrace), "body"})
	if got := r.request(m); string(got.Data) != string(want) {
		t.Errorf("answer %s, want %s", got.Data, want)
	}
	if got := r.rpc(events.VerbReserve, "again"); got.Header.Get(events.HeaderReplayed) != "true" {
		t.Errorf("replay has headers %v", got.Header)
	}
	got := r.rpc(events.VerbReserve, "bad")
	if code(got) != "not_found" || got.Header.Get(events.HeaderErrorCode) != "not_found" || got.Header.Get(events.HeaderError) == "" {
		t.Errorf("error answer %s with headers %v", got.Data, got.Header)
	}
	two := r.msg(events.Rpc("acme", r.agent, events.VerbReserve), "k", "body")
	two.Header.Add(events.HeaderKey, "other")
	if got := r.request(two); code(got) != "invalid_argument" {
		t.Errorf("two keys: %s", got.Data)
	}
	big := r.msg(events.Rpc("acme", r.agent, events.VerbReserve), "k", strings.Repeat(" ", events.MaxPayloadBytes+1))
	if got := r.request(big); code(got) != "payload_too_large" {
		t.Errorf("big payload: %s", got.Data)
	}
}

func TestReplyGoesOnlyToTheSendersInbox(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var executed atomic.Int64
	w, _ := r.run(r.config(each(func(q *Request) Answer {
		executed.Add(1)
		return Answer{Body: []byte(`{}`)}
	})))
	other := uuid.Must(uuid.NewV7()).String()
	// $JS.API.… is refused by the server already, from 2.15.3 on.
	foreign := []string{
		"tally.v1.ledger.acme.reserved",
		events.Decision("acme", r.agent, strings.Repeat("0", 32)), events.InboxPrefix(other) + ".x", "_INBOX.x",
		events.InboxPrefix(r.agent), events.InboxPrefix(r.agent) + ".", events.InboxPrefix(r.agent+"0") + ".x", events.InboxPrefix(r.agent) + ".*",
	}
	heard := make(chan *nats.Msg, 64)
	spy := r.nats.Connect(t, testkit.Agents)
	for _, s := range []string{"$JS.API.>", "tally.v1.ledger.>", "_INBOX.>", "tally.v1.*.*.decision.*"} {
		if _, err := spy.ChanSubscribe(s, heard); err != nil {
			t.Fatal(err)
		}
	}
	if err := spy.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, door := range []func(org, agent, verb string) string{events.Rpc, events.Cmd} {
		for _, reply := range foreign {
			m := r.msg(door("acme", r.agent, events.VerbReserve), "k", reserveBody)
			m.Reply = reply
			if err := r.nc.PublishMsg(m); err != nil {
				t.Fatal(err)
			}
		}
	}
	eventually(t, "foreign replies counted", func() bool {
		return metric(t, w, "refused_total", refusedForeignReply) == 2*len(foreign)
	})
	if n, stored := executed.Load(), r.stored(); n != 0 || stored != 0 {
		t.Fatalf("%d executed, %d stored", n, stored)
	}

	// A reply in a header is no reply, and none at all is executed unanswered.
	m := r.msg(events.Rpc("acme", r.agent, events.VerbReserve), "k", reserveBody)
	m.Header.Set("Reply-To", "_INBOX.x")
	m.Header.Set("X-Reply-Subject", "_INBOX.x")
	if err := r.nc.PublishMsg(m); err != nil {
		t.Fatal(err)
	}
	eventually(t, "executed unanswered", func() bool { return executed.Load() == 1 })
	if len(heard) != 0 {
		t.Fatalf("published on %s", (<-heard).Subject)
	}
}

// blocked is a handler that holds every batch until opened.
func blocked() (h Handler, open func()) {
	gate := make(chan struct{})
	return handlerFunc(func(ctx context.Context, reqs []*Request) []Answer {
		<-gate
		return echo.Handle(ctx, reqs)
	}), sync.OnceFunc(func() { close(gate) })
}

func TestAgentBound(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	h, open := blocked()
	defer open() // a test that fails must not hang
	cfg := r.config(h)
	cfg.AgentMax = 10
	r.run(cfg)
	inbox := r.nc.NewInbox()
	answers := make(chan *nats.Msg, 64)
	if _, err := r.nc.ChanSubscribe(inbox, answers); err != nil {
		t.Fatal(err)
	}
	for i := range 12 {
		m := r.msg(events.Rpc("acme", r.agent, events.VerbReserve), keyN(i), reserveBody)
		m.Reply = inbox
		if err := r.nc.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		m := receive(t, answers, "refusal")
		e := events.ParseError(m.Data)
		if e == nil || e.Code != events.CodeOverloaded || e.RetryAfterMS <= 0 || !e.Retryable {
			t.Fatalf("answer %s", m.Data)
		}
	}
	// Another agent is not affected.
	other := uuid.Must(uuid.NewV7()).String()
	done := make(chan *nats.Msg, 1)
	nc := r.connect(other)
	sub, err := nc.ChanSubscribe(nc.NewInbox()+".>", done)
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.PublishRequest(events.Rpc("acme", other, events.VerbReserve), strings.TrimSuffix(sub.Subject, ">")+"1", []byte(reserveBody)); err != nil {
		t.Fatal(err)
	}
	open()
	for range 10 {
		if m := receive(t, answers, "answer"); code(m) != "" {
			t.Errorf("answer %s", m.Data)
		}
	}
	if m := receive(t, done, "answer to the other agent"); code(m) != "" {
		t.Errorf("other agent: %s", m.Data)
	}
	// And everything is released again.
	for i := range 20 {
		if m := r.rpc(events.VerbReserve, keyN(i)); code(m) != "" {
			t.Fatalf("after release: %s", m.Data)
		}
	}
}

func TestQueueFull(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	h, open := blocked()
	defer open() // a test that fails must not hang
	cfg := r.config(h)
	cfg.QueueMax, cfg.BatchMax, cfg.InFlight = 4, 1, 2
	w, _ := r.run(cfg)
	inbox := r.nc.NewInbox()
	answers := make(chan *nats.Msg, 64)
	if _, err := r.nc.ChanSubscribe(inbox, answers); err != nil {
		t.Fatal(err)
	}
	// Two are taken, one by each batch in flight; four wait; nats.go may drop
	// what comes faster than the callback takes, so they come one by one.
	for i := range 7 {
		m := r.msg(events.Rpc("acme", r.agent, events.VerbReserve), keyN(i), reserveBody)
		m.Reply = inbox
		if err := r.nc.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
		if i < 6 {
			eventually(t, "queued", func() bool { return w.queue.depth() == max(0, i-1) })
		}
	}
	if m := receive(t, answers, "refusal"); code(m) != "overloaded" {
		t.Errorf("answer %s", m.Data)
	}
	open()
	for range 6 {
		if m := receive(t, answers, "answer"); code(m) != "" {
			t.Errorf("answer %s", m.Data)
		}
	}
}

func TestDeniedAgentsAreThrottled(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := r.config(each(func(q *Request) Answer {
		return Answer{Body: []byte(`{"outcome":"denied"}`), Denied: events.ReasonBudgetExceeded}
	}))
	var now atomic.Int64
	now.Store(time.Now().UnixMilli())
	cfg.Now = func() time.Time { return time.UnixMilli(now.Load()) }
	r.run(cfg)
	for i := range throttleDenials + 1 {
		if m := r.rpc(events.VerbReserve, keyN(i)); code(m) != "" {
			t.Fatalf("denial %d: %s", i, m.Data)
		}
	}
	for _, m := range []*nats.Msg{r.rpc(events.VerbReserve, "k"), r.rpc(events.VerbCharge, "k"), r.cmd(events.VerbReserve, "k")} {
		if e := events.ParseError(m.Data); e == nil || e.Code != events.CodeOverloaded || e.RetryAfterMS < 9_000 {
			t.Errorf("throttled: %s", m.Data)
		}
	}
	if m := r.rpc(events.VerbExtend, "k"); code(m) != "" {
		t.Errorf("extend is not throttled: %s", m.Data)
	}
	now.Add((throttleWindow + time.Second).Milliseconds())
	if m := r.rpc(events.VerbReserve, "k"); code(m) != "" {
		t.Errorf("after the window: %s", m.Data)
	}
}

func TestDrainAnswersWhatWasHeard(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	h, open := blocked()
	defer open() // a test that fails must not hang
	_, stop := r.run(r.config(h))
	const n = 500
	inbox := r.nc.NewInbox()
	answers := make(chan *nats.Msg, n)
	if _, err := r.nc.ChanSubscribe(inbox, answers); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		m := r.msg(events.Rpc("acme", r.agent, events.VerbReserve), keyN(i), reserveBody)
		m.Reply = inbox
		if err := r.nc.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	eventually(t, "nobody listens", func() bool {
		_, err := r.nc.Request(events.Rpc("acme", r.agent, events.VerbWhoami), nil, time.Second)
		return err == nats.ErrNoResponders
	})
	open()
	for range n {
		receive(t, answers, "answer")
	}
	receive(t, stopped, "end of the worker")
}
