package e2e

import (
	"context"
	"errors"
	"testing"
	"time"

	"tallystick/pkg/client"
	"tallystick/pkg/events"
)

// TestGoClient: an agent in Go starts a child with a grant, works within a
// budget, and waits for money that its parent holds.
func TestGoClient(t *testing.T) {
	t.Parallel()
	s := start(t)
	org := s.org()
	s.pool(org, "p", 1000)
	a := s.register(org, "p")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	parent, err := client.Connect(ctx, client.Config{URL: s.address.NATS, Token: a.Token, JournalDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer parent.Close()
	born, err := parent.Register(ctx, "helper", events.Register{
		Name: "helper", Budget: &events.Budget{Mode: events.BudgetGranted, Caps: map[string]int64{"usd_microcents": 700}},
	})
	if err != nil {
		t.Fatal(err)
	}
	child, err := parent.Child(ctx, born)
	if err != nil {
		t.Fatal(err)
	}
	defer child.Close()
	money := func(n int64) map[string]int64 { return map[string]int64{"usd_microcents": n} }
	waited := make(chan error, 1)
	err = parent.WithBudget(ctx, money(600), func(_ context.Context, h *client.Hold) error {
		go func() {
			ans, err := child.ReserveWait(ctx, "job", events.Reserve{Amounts: money(500)}, client.WaitPolicy{Max: 30 * time.Second})
			if err == nil && ans.Denial != nil {
				err = errors.New(string(ans.Denial.Reason))
			}
			waited <- err
		}()
		// The child finds the parent's money taken before the parent is done.
		ans, err := child.Reserve(ctx, "probe", events.Reserve{Amounts: money(500)})
		if err == nil && (ans.Denial == nil || ans.Denial.RetryAfterMS == nil) {
			t.Errorf("the probe: %+v", ans)
		}
		h.Spent(money(100))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := within(t, "the wait", 40*time.Second, waited); err != nil {
		t.Fatal(err)
	}
	var broker *client.BrokerArgumentError
	_, err = child.Do(ctx, client.Request{Verb: events.VerbRegister, Key: "k", Body: []byte(`{"name":"x","rootId":"1"}`)})
	if !errors.As(err, &broker) || broker.Field != "rootId" {
		t.Errorf("%v", err)
	}
	if ans, err := parent.Revoke(ctx, "end", events.Revoke{Agent: born.Agent}); err != nil || ans.Agents != 1 {
		t.Errorf("%+v, %v", ans, err)
	}
	a.dial()
	equal(t, "figures", a.figures(), "held 500 spent 100 withheld 0")
	s.lawful(org)
}
