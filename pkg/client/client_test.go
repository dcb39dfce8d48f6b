package client_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"tallystick/pkg/client"
	"tallystick/pkg/events"
)

const (
	reservation = "8f2c0000-0000-8000-8000-000000000001"
	allowed     = `{"outcome":"allowed","reservation":"` + reservation + `","amounts":{"usd_microcents":10},"expires_at":"2026-11-30T10:00:00.000Z"}`
)

func ten() events.Reserve { return events.Reserve{Amounts: map[string]int64{"usd_microcents": 10}} }

func TestConnectLearnsWhoTheTokenIs(t *testing.T) {
	t.Parallel()
	c := start(t).connect()
	if c.Org() != org || c.Agent() != agent {
		t.Fatalf("learned %s %s, want %s %s", c.Org(), c.Agent(), org, agent)
	}
}

func TestConnectRefused(t *testing.T) {
	t.Parallel()
	f := start(t)
	_, err := client.Connect(t.Context(), client.Config{URL: f.url, Token: "tly_wrong"})
	var auth *client.AuthError
	if !errors.As(err, &auth) {
		t.Fatalf("got %v, want an AuthError", err)
	}
}

func TestConfigNamesEveryProblem(t *testing.T) {
	t.Parallel()
	err := client.Config{Org: "acme", Attempts: -1}.Validate()
	for _, want := range []string{"no URL", "no token", "go together", "negative"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

func TestDenialIsAValue(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.serve(events.Rpc(org, agent, "reserve"), func(int, *nats.Msg) *nats.Msg {
		return body(`{"outcome":"denied","reason":"budget_exceeded","pool":"p","unit":"usd_microcents","remaining":3}`)
	})
	ans, err := f.connect().Reserve(t.Context(), "k1", ten())
	if err != nil {
		t.Fatal(err)
	}
	if ans.Denial == nil || ans.Denial.Reason != events.ReasonBudgetExceeded || *ans.Denial.Remaining != 3 {
		t.Fatalf("got %+v", ans)
	}
}

func TestErrorsAreTyped(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.serve(events.Rpc(org, agent, "settle"), func(int, *nats.Msg) *nats.Msg { return failure(events.NotFound("reservation")) })
	_, err := f.connect().Settle(t.Context(), "s", events.Settle{Key: new("k")})
	var e *events.Error
	if !errors.As(err, &e) || e.Code != events.CodeNotFound {
		t.Fatalf("got %v, want not_found", err)
	}
	if n := len(f.messages()); n != 1 {
		t.Fatalf("asked %d times, want once: not_found does not get better", n)
	}
}

func TestRepeatsUnderTheSameKey(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.serve(events.Rpc(org, agent, "reserve"), func(n int, _ *nats.Msg) *nats.Msg {
		switch n {
		case 0:
			return failure(events.Overloaded(1))
		case 1:
			return failure(events.Unavailable(0))
		case 2:
			return nil // the answer is lost
		}
		return body(allowed)
	})
	ans, err := f.connect().Reserve(t.Context(), "k1", ten())
	if err != nil || ans.Outcome != events.OutcomeAllowed {
		t.Fatalf("got %+v, %v", ans, err)
	}
	seen := f.messages()
	if len(seen) != 4 {
		t.Fatalf("asked %d times, want 4", len(seen))
	}
	for _, m := range seen {
		if m.Header.Get(events.HeaderKey) != "k1" || string(m.Data) != string(seen[0].Data) {
			t.Errorf("a repetition differs: %v %s", m.Header, m.Data)
		}
	}
}

func TestNobodyThereIsUnavailable(t *testing.T) {
	t.Parallel()
	_, err := start(t).connect().Reserve(t.Context(), "k1", ten())
	var e *events.Error
	if !errors.As(err, &e) || e.Code != events.CodeUnavailable || !errors.Is(err, nats.ErrNoResponders) {
		t.Fatalf("got %v, want unavailable", err)
	}
}

func TestCancelEndsRepetition(t *testing.T) {
	t.Parallel()
	f := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	f.serve(events.Rpc(org, agent, "reserve"), func(int, *nats.Msg) *nats.Msg {
		cancel()
		return failure(events.Unavailable(60_000))
	})
	_, err := f.connect().Reserve(ctx, "k1", ten())
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want canceled", err)
	}
}

func TestKeyIsDemanded(t *testing.T) {
	t.Parallel()
	_, err := start(t).connect().Reserve(t.Context(), "", ten())
	var e *events.Error
	if !errors.As(err, &e) || e.Code != events.CodeInvalidArgument {
		t.Fatalf("got %v, want invalid_argument", err)
	}
}

func TestDurableHearsItsDecision(t *testing.T) {
	t.Parallel()
	f := start(t)
	subject := events.Decision(org, agent, events.DecisionToken("reserve", "k1"))
	f.serve(events.Cmd(org, agent, "reserve"), func(_ int, m *nats.Msg) *nats.Msg {
		if m.Header.Get(events.HeaderTimeout) == "" {
			t.Error("the context's deadline is not passed on")
		}
		// The decision overtakes the acceptance: the client must already listen.
		if err := f.nc.PublishMsg(&nats.Msg{Subject: subject, Data: []byte(allowed)}); err != nil {
			t.Error(err)
		}
		return body(`{"outcome":"accepted"}`)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	ans, err := f.connect().Durable().Reserve(ctx, "k1", ten())
	if err != nil || ans.Outcome != events.OutcomeAllowed {
		t.Fatalf("got %+v, %v", ans, err)
	}
}

func TestDurableRefusalIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.serve(events.Cmd(org, agent, "reserve"), func(int, *nats.Msg) *nats.Msg { return failure(events.UnitUnknown("gold")) })
	_, err := f.connect().Durable().Reserve(t.Context(), "k1", ten())
	var e *events.Error
	if !errors.As(err, &e) || e.Code != events.CodeUnitUnknown {
		t.Fatalf("got %v, want unit_unknown", err)
	}
}
