package client_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"tallystick/pkg/client"
	"tallystick/pkg/events"
)

var errModel = errors.New("model is down")

func TestHoldResolves(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name string
		do   func(*client.Hold) error
		verb string
		body string
		err  error
	}{
		{"spent", func(h *client.Hold) error { h.Spent(map[string]int64{"usd_microcents": 7}); return nil }, "settle", `"actual":{"usd_microcents":7}`, nil},
		{"spent, then failed", func(h *client.Hold) error { h.Spent(map[string]int64{"usd_microcents": 7}); return errModel }, "settle", `"actual":{"usd_microcents":7}`, errModel},
		{"failed before the call", func(*client.Hold) error { return errModel }, "release", "", errModel},
		{"failed after the call went out", func(h *client.Hold) error { h.Dispatched(); return errModel }, "settle", "", errModel},
		{"cost never told", func(*client.Hold) error { return nil }, "settle", "", nil},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := start(t)
			f.serve(events.Rpc(org, agent, "*"), func(_ int, m *nats.Msg) *nats.Msg {
				_, _, _, verb, _ := events.ParseAgentSubject(m.Subject)
				switch verb {
				case "reserve":
					return body(allowed)
				case "settle":
					return body(`{"outcome":"settled","charged":{},"returned":{}}`)
				}
				return body(`{"outcome":"released","returned":{}}`)
			})
			ctx, cancel := context.WithCancel(t.Context())
			err := f.connect().Hold(ctx, "job", ten(), func(_ context.Context, h *client.Hold) error {
				cancel() // resolving must not depend on it
				return tc.do(h)
			})
			if !errors.Is(err, tc.err) {
				t.Fatalf("got %v, want %v", err, tc.err)
			}
			last := f.messages()[len(f.messages())-1]
			_, _, _, verb, _ := events.ParseAgentSubject(last.Subject)
			if verb != tc.verb || !strings.Contains(string(last.Data), tc.body) {
				t.Fatalf("resolved with %s %s, want %s %s", verb, last.Data, tc.verb, tc.body)
			}
		})
	}
}

func TestHoldDenied(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.serve(events.Rpc(org, agent, "reserve"), func(int, *nats.Msg) *nats.Msg {
		return body(`{"outcome":"denied","reason":"frozen"}`)
	})
	err := f.connect().Hold(t.Context(), "job", ten(), func(context.Context, *client.Hold) error {
		t.Error("ran without money")
		return nil
	})
	var denied *client.DeniedError
	if !errors.As(err, &denied) || denied.Denial.Reason != events.ReasonFrozen {
		t.Fatalf("got %v, want DeniedError frozen", err)
	}
}
