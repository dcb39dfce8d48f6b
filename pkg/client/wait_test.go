package client_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"tallystick/pkg/client"
	"tallystick/pkg/events"
)

const (
	slotsFull = `{"outcome":"denied","reason":"concurrency_exceeded","holders":3,"retry_after_ms":1}`
	noBudget  = `{"outcome":"denied","reason":"budget_exceeded"}`
)

func (f *fake) keys(verb string) (keys []string) {
	for _, a := range f.asked() {
		if w := strings.Fields(a); w[0] == verb {
			keys = append(keys, w[1])
		}
	}
	return keys
}

func TestWaitAsksAgainUnderDerivedKeys(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", events.MaxKeyBytes)
	for _, key := range []string{"job", long} {
		f := start(t)
		decided := map[string]*nats.Msg{} // as the broker: a key's answer stays
		f.broker(map[string]script{"reserve": func(n int, m *nats.Msg) *nats.Msg {
			k := m.Header.Get(events.HeaderKey)
			if !events.ValidKey(k) {
				t.Errorf("%q is no key", k)
			}
			if a := decided[k]; a != nil {
				// A replay may leave the figures out.
				return replayed(strings.Replace(string(a.Data), `,"holders":3,"retry_after_ms":1`, "", 1))
			}
			decided[k] = body(slotsFull)
			if n == 2 {
				decided[k] = body(allowed)
			}
			return decided[k]
		}})
		c := f.connect()
		for range 2 { // the second wait is the repetition after a crash
			ans, err := c.ReserveWait(t.Context(), key, ten(), client.WaitPolicy{})
			if err != nil || ans.Outcome != events.OutcomeAllowed {
				t.Fatalf("got %+v, %v", ans, err)
			}
		}
		keys := f.keys("reserve")
		if len(keys) != 6 || !slices.Equal(keys[:3], keys[3:]) || keys[0] != key || keys[1] == keys[2] {
			t.Fatalf("asked under %q", keys)
		}
		if key == "job" && (keys[1] != "job#2" || keys[2] != "job#3") {
			t.Fatalf("asked under %q", keys)
		}
	}
}

func TestWaitEndsWithADenial(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		answer *nats.Msg
		max    time.Duration
		tries  int
	}{
		{"that does not pass", body(noBudget), 0, 1},
		{"whose key was released", replayed(`{"outcome":"denied","reason":"released"}`), 0, 1},
		{"when the time is over", body(strings.Replace(slotsFull, ":1}", ":600000}", 1)), time.Second, 2},
		{"when the time is over, replayed", replayed(slotsFull), time.Nanosecond, 1},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := start(t)
			f.broker(map[string]script{"reserve": func(int, *nats.Msg) *nats.Msg { return tc.answer }})
			ans, err := f.connect().ReserveWait(t.Context(), "job", ten(), client.WaitPolicy{Max: tc.max})
			if err != nil || ans.Denial == nil {
				t.Fatalf("got %+v, %v, want a denial", ans, err)
			}
			if got := f.asked(); len(got) != tc.tries {
				t.Fatalf("asked %q, want %d", got, tc.tries)
			}
		})
	}
}

func TestWaitCancelledBetweenTriesHoldsNothing(t *testing.T) {
	t.Parallel()
	f := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	f.broker(map[string]script{"reserve": func(int, *nats.Msg) *nats.Msg {
		time.AfterFunc(20*time.Millisecond, cancel)
		return body(`{"outcome":"denied","reason":"concurrency_exceeded","retry_after_ms":600000}`)
	}})
	_, err := f.connect().ReserveWait(ctx, "job", ten(), client.WaitPolicy{})
	var denied *client.DeniedError
	if !errors.Is(err, context.Canceled) || !errors.As(err, &denied) {
		t.Fatalf("got %v, want canceled and the last denial", err)
	}
	if got := f.asked(); len(got) != 1 {
		t.Fatalf("asked %q: a denied try needs no release", got)
	}
}

func TestWaitCancelledInATryReleasesIt(t *testing.T) {
	t.Parallel()
	f := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	f.broker(map[string]script{"reserve": func(n int, _ *nats.Msg) *nats.Msg {
		if n == 0 {
			return body(slotsFull)
		}
		cancel()
		return nil
	}})
	_, err := f.connect().ReserveWait(ctx, "job", ten(), client.WaitPolicy{})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want canceled", err)
	}
	if want := `release job {"key":"job#2"}`; f.last() != want {
		t.Fatalf("last asked %s, want %s", f.last(), want)
	}
}

func TestBudgetWaitCancelledInATryReleasesIt(t *testing.T) {
	t.Parallel()
	f := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	f.broker(map[string]script{"reserve": func(n int, _ *nats.Msg) *nats.Msg {
		if n == 0 {
			return body(slotsFull)
		}
		cancel()
		return nil
	}})
	cfg := f.config()
	cfg.JournalDir = t.TempDir()
	err := f.connectWith(cfg).Hold(ctx, "job", ten(), nil, client.WithWait(client.WaitPolicy{}))
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want canceled", err)
	}
	if want := `release job {"key":"job#2"}`; f.last() != want || len(pages(t, cfg.JournalDir)) != 0 {
		t.Fatalf("last asked %s, want %s", f.last(), want)
	}
}

func TestWaitCancelledBeforeAsksNothing(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.broker(nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.connect().ReserveWait(ctx, "job", ten(), client.WaitPolicy{}); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want canceled", err)
	}
	if got := f.asked(); len(got) != 0 {
		t.Fatalf("asked %q", got)
	}
}

func TestWaitWithoutAnAnswerIsRepeatable(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.broker(map[string]script{"reserve": func(int, *nats.Msg) *nats.Msg { return failure(events.Unavailable(1)) }})
	_, err := f.connect().ReserveWait(t.Context(), "job", ten(), client.WaitPolicy{})
	if !errors.Is(err, &events.Error{Code: events.CodeUnavailable}) {
		t.Fatalf("got %v, want unavailable", err)
	}
	if got := f.keys("release"); len(got) != 0 {
		t.Fatal("released, so that the same key finds nothing again")
	}
}
