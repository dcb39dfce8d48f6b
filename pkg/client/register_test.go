package client_test

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"

	"tallystick/pkg/client"
	"tallystick/pkg/events"
)

const registered = `{"outcome":"registered","agent":"` + childAgent + `","org":"acme","name":"helper","token":"` + childToken +
	`","parent":"` + agent + `","root":"` + agent + `","depth":1,"pool":"p"}`

func TestRegisterAndSpeakForTheChild(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.broker(map[string]script{"register": func(n int, _ *nats.Msg) *nats.Msg {
		if n == 0 {
			return nil // a lost answer is asked for again under the same key
		}
		return body(registered)
	}})
	f.serve(events.Rpc(org, childAgent, "reserve"), func(int, *nats.Msg) *nats.Msg { return body(allowed) })
	cfg := f.config()
	cfg.JournalDir = t.TempDir()
	parent := f.connectWith(cfg)
	a, err := parent.Register(t.Context(), "r1", events.Register{Name: "helper"})
	if err != nil || a.Agent != childAgent {
		t.Fatalf("got %+v, %v", a, err)
	}
	for _, got := range f.asked() {
		if want := `register r1 {"name":"helper"}`; got != want {
			t.Errorf("asked %s, want %s", got, want)
		}
	}
	child, err := parent.Child(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	defer child.Close()
	if child.Org() != org || child.Agent() != childAgent {
		t.Fatalf("the child is %s of %s", child.Agent(), child.Org())
	}
	if ans, err := child.Reserve(t.Context(), "k", ten()); err != nil || ans.Outcome != events.OutcomeAllowed {
		t.Fatalf("got %+v, %v", ans, err)
	}
}

func TestChildNeedsARegisteredAgent(t *testing.T) {
	t.Parallel()
	if _, err := start(t).connect().Child(t.Context(), events.RegisterAnswer{Agent: childAgent, Org: org}); err == nil {
		t.Fatal("connected without a token")
	}
}

func TestRevoke(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.broker(map[string]script{"revoke": func(int, *nats.Msg) *nats.Msg { return body(`{"outcome":"revoked","agents":3}`) }})
	a, err := f.connect().Revoke(t.Context(), "v1", events.Revoke{Agent: childAgent, Holds: new(events.HoldsRelease)})
	if err != nil || a.Agents != 3 {
		t.Fatalf("got %+v, %v", a, err)
	}
	if want := `revoke v1 {"agent":"` + childAgent + `","holds":"release"}`; f.last() != want {
		t.Fatalf("asked %s, want %s", f.last(), want)
	}
}

func TestRegisterAndRevokeDemandAKey(t *testing.T) {
	t.Parallel()
	c := start(t).connect()
	_, register := c.Register(t.Context(), "", events.Register{Name: "helper"})
	_, revoke := c.Revoke(t.Context(), "", events.Revoke{Agent: childAgent})
	for _, err := range []error{register, revoke} {
		if !errors.Is(err, &events.Error{Code: events.CodeInvalidArgument}) {
			t.Errorf("got %v, want invalid_argument", err)
		}
	}
}

func TestBrokerArgumentIsTyped(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.broker(map[string]script{"register": func(int, *nats.Msg) *nats.Msg { return failure(events.BrokerArgument("rootId")) }})
	_, err := f.connect().Register(t.Context(), "r1", events.Register{Name: "helper"})
	var broker *client.BrokerArgumentError
	if !errors.As(err, &broker) || broker.Field != "rootId" {
		t.Fatalf("got %v, want a BrokerArgumentError for rootId", err)
	}
	var e *events.Error
	if !errors.As(err, &e) || e.Code != events.CodeBrokerArgument || err.Error() != e.Error() {
		t.Fatalf("got %v, want the events.Error inside", err)
	}
}
