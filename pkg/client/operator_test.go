package client_test

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"

	"tallystick/pkg/client"
	"tallystick/pkg/events"
)

func (f *fake) operator(token string) *client.Operator {
	f.t.Helper()
	o, err := client.ConnectOperator(f.url, token)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(o.Close)
	return o
}

func TestOperatorSpeaksForItself(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.serve(events.Admin("org_create"), func(int, *nats.Msg) *nats.Msg { return body(`{}`) })
	o := f.operator(operatorToken)
	if o.Org() != "" || o.Admin() != "" {
		t.Errorf("%s %s", o.Org(), o.Admin())
	}
	for _, o := range []*client.Operator{o, o.Because("a customer")} {
		if _, err := o.Do(t.Context(), "org_create", "", map[string]any{}); err != nil {
			t.Fatal(err)
		}
	}
	seen := f.messages()
	if len(seen) != 2 || seen[0].Header.Get(events.HeaderReason) != "" || seen[1].Header.Get(events.HeaderReason) != "a customer" {
		t.Errorf("%v", seen)
	}
}

func TestAdminSpeaksUnderItsName(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.serve(events.OrgAdmin(org, agent, "pool_show"), func(int, *nats.Msg) *nats.Msg { return body(`{}`) })
	o := f.operator(viewerToken)
	if o.Org() != org || o.Admin() != agent {
		t.Errorf("%s %s", o.Org(), o.Admin())
	}
	if _, err := o.Do(t.Context(), "pool_show", "", map[string]any{"org": org}); err != nil {
		t.Fatal(err)
	}
	// What its role lacks is refused here: the server would only be silent.
	_, err := o.Do(t.Context(), "pool_set", "", map[string]any{"org": org})
	var auth *client.AuthError
	if !errors.As(err, &auth) {
		t.Errorf("got %v, want an AuthError", err)
	}
	if _, err := client.ConnectOperator(f.url, token); !errors.As(err, &auth) {
		t.Errorf("an agent as operator: %v, want an AuthError", err)
	}
	if _, err := client.ConnectOperator(f.url, "tly_wrong"); !errors.As(err, &auth) {
		t.Errorf("a wrong token: %v, want an AuthError", err)
	}
}
