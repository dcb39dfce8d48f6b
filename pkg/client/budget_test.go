package client_test

import (
	"context"
	"errors"
	"runtime"
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
		{"failed after the call went out", func(h *client.Hold) error { return errors.Join(h.Dispatched(), errModel) }, "settle", "", errModel},
		{"cost never told", func(*client.Hold) error { return nil }, "settle", "", nil},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := start(t)
			f.broker(nil)
			ctx, cancel := context.WithCancel(t.Context())
			err := f.connect().Hold(ctx, "job", ten(), func(_ context.Context, h *client.Hold) error {
				cancel() // resolving must not depend on it
				return tc.do(h)
			})
			if !errors.Is(err, tc.err) {
				t.Fatalf("got %v, want %v", err, tc.err)
			}
			if got := f.last(); !strings.HasPrefix(got, tc.verb+" job ") || !strings.Contains(got, tc.body) {
				t.Fatalf("resolved with %s, want %s %s", got, tc.verb, tc.body)
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

func TestWithBudgetMakesAKeyOfItsOwn(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.broker(nil)
	c := f.connect()
	for range 2 {
		err := c.WithBudget(t.Context(), ten().Amounts, func(_ context.Context, h *client.Hold) error {
			h.Spent(map[string]int64{"usd_microcents": 7})
			return nil
		}, client.WithRequest(events.Reserve{Pool: new("research")}))
		if err != nil {
			t.Fatal(err)
		}
	}
	keys := f.keys("reserve")
	if len(keys) != 2 || keys[0] == keys[1] || !events.ValidReservation(keys[0]) {
		t.Fatalf("reserved under %q", keys)
	}
	if want := f.keys("settle"); want[0] != keys[0] || want[1] != keys[1] {
		t.Fatalf("settled under %q, reserved under %q", want, keys)
	}
	if got := f.asked()[0]; !strings.HasSuffix(got, `{"amounts":{"usd_microcents":10},"pool":"research"}`) {
		t.Fatalf("asked %s", got)
	}
}

func TestWithBudgetWaits(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.broker(map[string]script{"reserve": func(n int, _ *nats.Msg) *nats.Msg {
		if n == 0 {
			return body(slotsFull)
		}
		return body(allowed)
	}})
	err := f.connect().Hold(t.Context(), "job", ten(), func(context.Context, *client.Hold) error { return errModel },
		client.WithWait(client.WaitPolicy{}))
	if !errors.Is(err, errModel) {
		t.Fatal(err)
	}
	if got := f.asked(); len(got) != 3 || !strings.HasPrefix(got[2], "release job ") {
		t.Fatalf("asked %q", got)
	}
}

func TestDryRunHoldsNothing(t *testing.T) {
	t.Parallel()
	q := ten()
	q.DryRun = new(true)
	err := start(t).connect().Hold(t.Context(), "job", q, nil)
	if !errors.Is(err, &events.Error{Code: events.CodeInvalidArgument}) {
		t.Fatalf("got %v, want invalid_argument", err)
	}
}

// An abrupt end of the function resolves like an error.
func TestAbruptEndsResolve(t *testing.T) {
	t.Parallel()
	ends := map[string]func(){"panic": func() { panic("boom") }, "goexit": runtime.Goexit}
	for name, end := range ends {
		for _, dispatched := range []bool{false, true} {
			verb := "release"
			if dispatched {
				verb = "settle"
			}
			t.Run(name+", "+verb, func(t *testing.T) {
				t.Parallel()
				f := start(t)
				f.broker(nil)
				c := f.connect()
				done := make(chan any)
				go func() {
					defer close(done)
					defer func() { done <- recover() }()
					_ = c.Hold(t.Context(), "job", ten(), func(_ context.Context, h *client.Hold) error {
						if dispatched {
							_ = h.Dispatched()
						}
						end()
						return nil
					})
				}()
				if r := <-done; (r != nil) != (name == "panic") {
					t.Errorf("recovered %v", r)
				}
				<-done
				if want := verb + ` job {"reservation":"` + reservation + `"}`; f.last() != want {
					t.Fatalf("last asked %s, want %s", f.last(), want)
				}
			})
		}
	}
}

// A reserve without an answer may hold money: it is released by its key.
func TestUnknownReserveIsReleased(t *testing.T) {
	t.Parallel()
	cases := map[string]func(cancel func()) *nats.Msg{
		"cancelled": func(cancel func()) *nats.Msg { cancel(); return nil },
		"lost":      func(func()) *nats.Msg { return nil },
		"garbled":   func(func()) *nats.Msg { return body("{") },
	}
	for name, answer := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			f.broker(map[string]script{"reserve": func(int, *nats.Msg) *nats.Msg { return answer(cancel) }})
			cfg := f.config()
			cfg.Attempts = 2
			err := f.connectWith(cfg).Hold(ctx, "job", ten(), func(context.Context, *client.Hold) error {
				t.Error("ran without money")
				return nil
			})
			if err == nil {
				t.Fatal("no error")
			}
			if want := `release job {"key":"job"}`; f.last() != want {
				t.Fatalf("last asked %s, want %s", f.last(), want)
			}
		})
	}
}

func TestCancelledBeforeAsksNothing(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.broker(nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.connect().Hold(ctx, "job", ten(), nil); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want canceled", err)
	}
	if got := f.asked(); len(got) != 0 {
		t.Fatalf("asked %q", got)
	}
}

func TestLostSettleIsRepeated(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.broker(map[string]script{"settle": func(n int, _ *nats.Msg) *nats.Msg {
		if n == 0 {
			return nil
		}
		return replayed(`{"outcome":"settled","charged":{},"returned":{}}`)
	}})
	if err := f.connect().Hold(t.Context(), "job", ten(), func(context.Context, *client.Hold) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if got := f.asked(); len(got) != 3 || got[1] != got[2] {
		t.Fatalf("asked %q", got)
	}
}

func TestReleasedByAnotherIsReleased(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.broker(map[string]script{"release": func(int, *nats.Msg) *nats.Msg { return failure(events.AlreadyReleased()) }})
	err := f.connect().Hold(t.Context(), "job", ten(), func(context.Context, *client.Hold) error { return errModel })
	if !errors.Is(err, errModel) || errors.Is(err, events.AlreadyReleased()) {
		t.Fatalf("got %v, want only the function's error", err)
	}
}

func TestRefusedOverrunIsAnError(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.broker(map[string]script{"settle": func(int, *nats.Msg) *nats.Msg { return body(`{"outcome":"denied","reason":"overrun"}`) }})
	err := f.connect().Hold(t.Context(), "job", ten(), func(context.Context, *client.Hold) error { return nil })
	var denied *client.DeniedError
	if !errors.As(err, &denied) || denied.Denial.Reason != events.ReasonOverrun {
		t.Fatalf("got %v, want denied overrun", err)
	}
}

// A key that has reserved before runs again only while the money is held, and
// then cannot give back what the earlier run may have spent.
func TestRepeatedKey(t *testing.T) {
	t.Parallel()
	again := func(int, *nats.Msg) *nats.Msg { return replayed(allowed) }
	t.Run("held", func(t *testing.T) {
		t.Parallel()
		f := start(t)
		f.broker(map[string]script{"reserve": again})
		err := f.connect().Hold(t.Context(), "job", ten(), func(context.Context, *client.Hold) error { return errModel })
		if !errors.Is(err, errModel) || !strings.HasPrefix(f.last(), "settle job ") {
			t.Fatalf("%v, then %s", err, f.last())
		}
	})
	t.Run("resolved", func(t *testing.T) {
		t.Parallel()
		f := start(t)
		f.broker(map[string]script{"reserve": again, "extend": func(int, *nats.Msg) *nats.Msg { return failure(events.AlreadySettled()) }})
		err := f.connect().Hold(t.Context(), "job", ten(), func(context.Context, *client.Hold) error {
			t.Error("spent twice")
			return nil
		})
		var lost *client.LostError
		if !errors.As(err, &lost) || lost.Reservation != reservation || len(f.asked()) != 1 {
			t.Fatalf("got %v, asked %q", err, f.asked())
		}
	})
}

func TestNothingIsMarkedAfterTheEnd(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.broker(nil)
	var kept *client.Hold
	err := f.connect().Hold(t.Context(), "job", ten(), func(_ context.Context, h *client.Hold) error { kept = h; return nil })
	if err != nil {
		t.Fatal(err)
	}
	if kept.Dispatched() == nil {
		t.Fatal("a call may go out without money")
	}
}
