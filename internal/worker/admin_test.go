package worker

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"tallystick/internal/testkit"
	"tallystick/pkg/events"
)

func TestServeAdmin(t *testing.T) {
	t.Parallel()
	server := testkit.NATS(t)
	gate := make(chan struct{})
	a, err := NewAdmin(AdminConfig{
		Name: "registrar", Conn: server.Connect(t, testkit.Admin), InFlightMax: 2, Log: zerolog.Nop(),
		Verbs: map[string]AdminFunc{
			"pool_show": func(_ context.Context, r AdminRequest) ([]byte, error) {
				return []byte(r.Verb + " " + r.Key + " " + string(r.Body)), nil
			},
			"pool_set":   func(context.Context, AdminRequest) ([]byte, error) { return nil, events.NotFound("pool") },
			"rebuild":    func(context.Context, AdminRequest) ([]byte, error) { return nil, errors.New("secret detail") },
			"reconcile":  func(context.Context, AdminRequest) ([]byte, error) { panic("bug") },
			"agent_list": func(context.Context, AdminRequest) ([]byte, error) { <-gate; return []byte("{}"), nil },
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	receive(t, a.Started(), "start")
	nc := server.Connect(t, testkit.Admin, nats.CustomInboxPrefix("_INBOX.admin"))
	call := func(verb string) *nats.Msg {
		t.Helper()
		m := nats.NewMsg(events.Admin(verb))
		m.Header.Set(events.HeaderKey, "k")
		m.Data = []byte("body")
		answer, err := nc.RequestMsg(m, waitMax)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	if m := call("pool_show"); string(m.Data) != "pool_show k body" {
		t.Errorf("answer %s", m.Data)
	}
	if m := call("pool_set"); code(m) != "not_found" || m.Header.Get(events.HeaderErrorCode) != "not_found" {
		t.Errorf("error %s with %v", m.Data, m.Header)
	}
	for _, verb := range []string{"rebuild", "reconcile"} {
		if e := events.ParseError(call(verb).Data); e == nil || e.Code != events.CodeInternal {
			t.Errorf("%s: %v", verb, e)
		}
	}
	// A reply outside the operators' inbox is not executed.
	other := server.Connect(t, testkit.Admin)
	if _, err := other.Request(events.Admin("pool_show"), nil, 50*time.Millisecond); err == nil {
		t.Error("answered outside the inbox")
	}
	// More at once than allowed are refused; those running are finished.
	answers := make(chan *nats.Msg, 3)
	sub, err := nc.ChanSubscribe("_INBOX.admin.x", answers)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := nc.PublishRequest(events.Admin("agent_list"), sub.Subject, nil); err != nil {
			t.Fatal(err)
		}
	}
	if m := receive(t, answers, "refusal"); code(m) != "overloaded" {
		t.Errorf("third at once: %s", m.Data)
	}
	cancel()
	close(gate)
	for range 2 {
		if m := receive(t, answers, "answer"); string(m.Data) != "{}" {
			t.Errorf("answer %s", m.Data)
		}
	}
	if err := receive(t, done, "end"); err != nil {
		t.Error(err)
	}
}
