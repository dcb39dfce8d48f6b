package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"tallystick/pkg/client"
	"tallystick/pkg/events"
)

func second() events.Reserve {
	q := ten()
	q.TTLMS = new(events.TTLMinMS)
	return q
}

func TestHeartbeatExtends(t *testing.T) {
	t.Parallel()
	f := start(t)
	beats := make(chan *nats.Msg, 100)
	f.broker(map[string]script{"extend": func(n int, m *nats.Msg) *nats.Msg {
		beats <- m
		if n == 1 {
			return failure(events.Unavailable(1))
		}
		return body(allowed)
	}})
	err := f.connect().Hold(t.Context(), "job", second(), func(ctx context.Context, _ *client.Hold) error {
		begin := time.Now()
		keys := map[string]bool{}
		for range 6 {
			m := <-beats
			var q events.Extend
			if err := json.Unmarshal(m.Data, &q); err != nil || *q.Reservation != reservation || *q.TTLMS != events.TTLMinMS {
				t.Errorf("extended with %s", m.Data)
			}
			keys[m.Header.Get(events.HeaderKey)] = true
		}
		// One beat was repeated under its key after the failure.
		if len(keys) != 5 {
			t.Errorf("%d keys for 5 beats", len(keys))
		}
		if took := time.Since(begin); took < time.Duration(events.TTLMinMS)*time.Millisecond {
			t.Errorf("five beats in %v: too many", took)
		}
		return ctx.Err() // still held after more than a TTL
	})
	if err != nil {
		t.Fatal(err)
	}
}

// When the reservation is gone, the function's context says so, and what it
// spent is settled all the same.
func TestLostReservationEndsTheFunction(t *testing.T) {
	t.Parallel()
	cases := map[string]*nats.Msg{
		"expired":   failure(events.AlreadyExpired()),
		"not found": failure(events.NotFound("reservation")),
		"revoked":   body(`{"outcome":"denied","reason":"revoked"}`),
		"unheard":   nil, // nobody extends it before its deadline
	}
	for name, answer := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t)
			f.broker(map[string]script{"extend": func(int, *nats.Msg) *nats.Msg { return answer }})
			err := f.connect().Hold(t.Context(), "job", second(), func(ctx context.Context, h *client.Hold) error {
				<-ctx.Done()
				var lost *client.LostError
				if !errors.As(context.Cause(ctx), &lost) {
					t.Errorf("the cause is %v", context.Cause(ctx))
				}
				h.Spent(map[string]int64{"usd_microcents": 7})
				return ctx.Err()
			})
			var lost *client.LostError
			if !errors.As(err, &lost) || !errors.Is(err, context.Canceled) {
				t.Fatalf("got %v, want a LostError", err)
			}
			if !strings.HasPrefix(f.last(), "settle job ") || !strings.Contains(f.last(), `"usd_microcents":7`) {
				t.Fatalf("last asked %s", f.last())
			}
		})
	}
}

// A frozen pool does not extend, and the money is still held.
func TestRefusedExtendIsNotALoss(t *testing.T) {
	t.Parallel()
	f := start(t)
	beats := make(chan bool, 100)
	f.broker(map[string]script{"extend": func(n int, _ *nats.Msg) *nats.Msg {
		beats <- true
		if n < 2 {
			return body(`{"outcome":"denied","reason":"frozen"}`)
		}
		return body(allowed)
	}})
	err := f.connect().Hold(t.Context(), "job", second(), func(ctx context.Context, _ *client.Hold) error {
		for range 4 {
			<-beats
		}
		return ctx.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The function may need its money while it winds up after a cancel.
func TestHeartbeatOutlivesTheContext(t *testing.T) {
	t.Parallel()
	f := start(t)
	beats := make(chan bool, 100)
	f.broker(map[string]script{"extend": func(int, *nats.Msg) *nats.Msg { beats <- true; return body(allowed) }})
	ctx, cancel := context.WithCancel(t.Context())
	err := f.connect().Hold(ctx, "job", second(), func(context.Context, *client.Hold) error {
		cancel()
		<-beats
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
