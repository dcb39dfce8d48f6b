package worker

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tallystick/internal/testkit"
	"tallystick/pkg/events"
)

// ledgered is a handler that knows what it has decided before, as the scripts do.
func ledgered() (h Handler, executions *sync.Map) {
	executions = new(sync.Map)
	return each(func(q *Request) Answer {
		_, again := executions.LoadOrStore(q.Key, true)
		return Answer{Body: []byte(`{"outcome":"allowed"}`), Replayed: again}
	}), executions
}

func TestDurableDoor(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	requests := make(chan *Request, 1)
	r.run(r.config(each(func(q *Request) Answer {
		requests <- q
		return Answer{Body: []byte(`{"outcome":"allowed"}`)}
	})))
	decisions := r.decisions()

	m := r.msg(events.Cmd("acme", r.agent, events.VerbReserve), "schlüssel 1", reserveBody)
	for _, h := range []string{"Nats-Expected-Last-Sequence", "Nats-Expected-Stream", "Nats-Schedule", "Nats-Rollup", "Nats-TTL", "Nats-Batch-Id", "nats-msg-id", "X-Other"} {
		m.Header.Set(h, "99")
	}
	m.Header.Set(events.HeaderTimeout, "60000")
	if got := r.request(m); string(got.Data) != `{"outcome":"accepted"}` {
		t.Fatalf("answer %s", got.Data)
	}
	q := receive(t, requests, "request")
	if q.Door != Durable || q.Org != "acme" || q.Agent != r.agent || q.Key != "schlüssel 1" || string(q.Body) != reserveBody || q.Deliveries != 1 {
		t.Errorf("request %+v", q)
	}
	if d := q.Deadline.Sub(q.StoredAt); d != time.Minute {
		t.Errorf("deadline %v after storing", d)
	}
	d := receive(t, decisions, "decision")
	if want := events.Decision("acme", r.agent, events.DecisionToken("reserve", "schlüssel 1")); d.Subject != want {
		t.Errorf("decision on %s, want %s", d.Subject, want)
	}
	if d.Header.Get(events.HeaderTallyKey) != "schlüssel 1" || d.Header.Get(events.HeaderVerb) != "reserve" || string(d.Data) != `{"outcome":"allowed"}` {
		t.Errorf("decision %s with %v", d.Data, d.Header)
	}
	stored, err := mustStream(r).GetMsg(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	for name := range stored.Header {
		if name != events.HeaderTallyKey && name != events.HeaderTimeout {
			t.Errorf("stored header %s", name)
		}
	}
	eventually(t, "acknowledged", func() bool { return r.unacknowledged() == 0 })
}

func mustStream(r *rig) jetstream.Stream {
	r.t.Helper()
	s, err := r.js.Stream(r.t.Context(), events.StreamCommands)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func TestContentErrorsAreNeverStored(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.run(r.config(echo))
	header := func(m *nats.Msg, k, v string) *nats.Msg { m.Header.Set(k, v); return m }
	reserve := events.Cmd("acme", r.agent, events.VerbReserve)
	for name, tc := range map[string]struct {
		msg  *nats.Msg
		code string
	}{
		"no key":       {r.msg(reserve, "", reserveBody), "invalid_argument"},
		"outer space":  {r.msg(reserve, "k\u00a0", reserveBody), "invalid_argument"},
		"long key":     {r.msg(reserve, strings.Repeat("k", 256), reserveBody), "invalid_argument"},
		"not JSON":     {r.msg(reserve, "k", "nope"), "invalid_argument"},
		"fraction":     {r.msg(reserve, "k", `{"amounts":{"tokens":1.5}}`), "invalid_argument"},
		"broker field": {r.msg(reserve, "k", `{"amounts":{"tokens":1},"agentId":"x"}`), "broker_argument"},
		"dry run":      {r.msg(reserve, "k", `{"amounts":{"tokens":1},"dry_run":true}`), "invalid_argument"},
		"timeout":      {header(r.msg(reserve, "k", reserveBody), events.HeaderTimeout, "1800001"), "invalid_argument"},
		"extend":       {r.msg(events.Cmd("acme", r.agent, events.VerbExtend), "k", `{}`), "invalid_argument"},
		"charge":       {r.msg(events.Cmd("acme", r.agent, events.VerbCharge), "k", `{}`), "invalid_argument"},
		"too large":    {r.msg(reserve, "k", strings.Repeat(" ", events.MaxPayloadBytes+1)), "payload_too_large"},
	} {
		if got := r.request(tc.msg); code(got) != tc.code {
			t.Errorf("%s: %s", name, got.Data)
		}
	}
	if n := r.stored(); n != 0 {
		t.Errorf("%d stored", n)
	}
}

func TestRepeatedCommandIsDecidedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	h, _ := ledgered()
	r.run(r.config(h))
	decisions := r.decisions()
	for _, replayed := range []string{"", "true"} {
		r.cmd(events.VerbReserve, "k")
		if d := receive(t, decisions, "decision"); d.Header.Get(events.HeaderReplayed) != replayed {
			t.Errorf("decision with %v, want replayed %q", d.Header, replayed)
		}
	}
}

// A worker that dies at any point leaves the command to another.
func TestWorkerKilledAt(t *testing.T) {
	t.Parallel()
	for _, point := range []Point{AfterStore, AfterScript, AfterDecision, BeforeAck} {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			h, executions := ledgered()
			decisions := r.decisions()
			cfg := r.config(h)
			killed := make(chan struct{})
			var once sync.Once
			var dead atomic.Bool
			cfg.Signals = &Signals{At: func(p Point) bool {
				if p == point {
					once.Do(func() { dead.Store(true); close(killed) })
				}
				return !dead.Load()
			}}
			_, stop := r.run(cfg)
			m := r.msg(events.Cmd("acme", r.agent, events.VerbReserve), "k", reserveBody)
			m.Reply = r.nc.NewInbox()
			if err := r.nc.PublishMsg(m); err != nil {
				t.Fatal(err)
			}
			receive(t, killed, "kill")
			stop()
			if point == AfterDecision || point == BeforeAck {
				receive(t, decisions, "decision of the first worker")
			}
			r.run(r.config(h))
			d := receive(t, decisions, "decision of the second worker")
			if string(d.Data) != `{"outcome":"allowed"}` {
				t.Errorf("decision %s", d.Data)
			}
			eventually(t, "acknowledged", func() bool { return r.unacknowledged() == 0 })
			if _, ok := executions.Load("k"); !ok {
				t.Error("not executed")
			}
		})
	}
}

func TestOutagesAreWaitedOut(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var tries atomic.Int64
	w, _ := r.run(r.config(each(func(q *Request) Answer {
		if tries.Add(1) <= 3 {
			return Answer{Retry: 10 * time.Millisecond}
		}
		return Answer{Body: []byte(`{}`)}
	})))
	decisions := r.decisions()
	r.cmd(events.VerbReserve, "k")
	receive(t, decisions, "decision")
	if n := metric(t, w, "retried_total", ""); n != 3 {
		t.Errorf("%d retries", n)
	}
}

func TestPoisonIsBuriedAfterFivePanics(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var panics atomic.Int64
	w, _ := r.run(r.config(each(func(q *Request) Answer {
		if q.Key == "poison" {
			panics.Add(1)
			panic("poison")
		}
		return Answer{Body: []byte(`{"outcome":"allowed"}`)}
	})))
	if m := r.rpc(events.VerbReserve, "poison"); code(m) != "internal" || !strings.Contains(string(m.Data), "incident") {
		t.Errorf("direct door: %s", m.Data)
	}
	panics.Store(0)
	decisions := r.decisions()
	r.cmd(events.VerbReserve, "poison")
	for i := range 20 {
		r.cmd(events.VerbReserve, keyN(i))
	}
	for range 20 {
		if d := receive(t, decisions, "decision"); code(d) != "" {
			t.Errorf("neighbour of the poison: %s", d.Data)
		}
	}
	d := receive(t, decisions, "decision of the poison")
	if code(d) != "internal" || d.Header.Get(events.HeaderTallyKey) != "poison" {
		t.Errorf("decision %s with %v", d.Data, d.Header)
	}
	dead, err := r.js.Stream(t.Context(), events.StreamDeadLetters)
	if err != nil {
		t.Fatal(err)
	}
	letter, err := dead.GetMsg(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if letter.Subject != events.Dead("acme", "reserve") || letter.Header.Get(events.HeaderDeadReason) != "panic" ||
		letter.Header.Get(events.HeaderDeadAgent) != r.agent || letter.Header.Get(events.HeaderDeadDeliveries) != "5" || string(letter.Data) != reserveBody {
		t.Errorf("dead letter %s %s with %v", letter.Subject, letter.Data, letter.Header)
	}
	eventually(t, "acknowledged", func() bool { return r.unacknowledged() == 0 })
	if n := metric(t, w, "dead_letters_total", "panic"); n != 1 {
		t.Errorf("%d dead letters", n)
	}
}

func TestDeadAnswerIsBuriedAndDecided(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.run(r.config(each(func(q *Request) Answer {
		a := ErrorAnswer(events.NotFound("reservation"))
		a.Dead, a.EventType, a.Event = "unmatched", events.EventSettleUnmatched, []byte(`{"type":"x"}`)
		return a
	})))
	decisions := r.decisions()
	r.cmd(events.VerbReserve, "k")
	if d := receive(t, decisions, "decision"); code(d) != "not_found" {
		t.Errorf("decision %s", d.Data)
	}
	for stream, subject := range map[string]string{
		events.StreamDeadLetters: events.Dead("acme", "reserve"),
		events.StreamEvents:      events.Event("acme", events.EventSettleUnmatched),
	} {
		s, err := r.js.Stream(t.Context(), stream)
		if err != nil {
			t.Fatal(err)
		}
		if m, err := s.GetLastMsgForSubject(t.Context(), subject); err != nil {
			t.Errorf("%s: %v", subject, err)
		} else if stream == events.StreamDeadLetters && m.Header.Get(events.HeaderDeadReason) != "unmatched" {
			t.Errorf("dead letter with %v", m.Header)
		}
	}
}

func TestDecisionsSurviveALostConnection(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	h, _ := ledgered()
	cfg := r.config(h)
	cfg.PublishTimeout = 300 * time.Millisecond
	closed := r.nats.Connect(t, testkit.Agents, nats.ReconnectBufSize(-1))
	closed.Close()
	broken := cfg
	broken.Agents = closed
	w, err := New(broken)
	if err != nil {
		t.Fatal(err)
	}
	decisions := r.decisions()
	if _, err := r.js.PublishMsg(t.Context(), &nats.Msg{
		Subject: events.Command("acme", r.agent, events.VerbReserve), Header: nats.Header{events.HeaderTallyKey: {"k"}}, Data: []byte(reserveBody),
	}); err != nil {
		t.Fatal(err)
	}
	c, err := w.consumer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.Next()
	if err != nil {
		t.Fatal(err)
	}
	w.execute(t.Context(), []*delivery{newDelivery(m)})
	if n := metric(t, w, "decisions_unpublished_total", ""); n != 1 {
		t.Errorf("%d unpublished", n)
	}
	if r.unacknowledged() != 1 {
		t.Fatal("acknowledged without a decision")
	}
	r.run(cfg)
	if d := receive(t, decisions, "decision"); d.Header.Get(events.HeaderReplayed) != "true" {
		t.Errorf("decision with %v", d.Header)
	}
}
