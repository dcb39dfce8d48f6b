package scribe_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tallystick/pkg/events"
)

// pauseFor waits long enough for a scribe of a test to look n times.
func pauseFor(t testing.TB, n int) {
	t.Helper()
	select {
	case <-time.After(time.Duration(n) * 60 * time.Millisecond):
	case <-t.Context().Done():
	}
}

// TestConfigurationDrift: somebody with every right changes the stream. Nothing
// is written until it is as it was, and then all of it.
func TestConfigurationDrift(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*jetstream.StreamConfig){
		"max messages": func(c *jetstream.StreamConfig) { c.MaxMsgs = 1000 },
		"direct gets":  func(c *jetstream.StreamConfig) { c.AllowDirect = true },
		"subjects":     func(c *jetstream.StreamConfig) { c.Subjects = append(c.Subjects, "more.>") },
		"no batches":   func(c *jetstream.StreamConfig) { c.AllowAtomicPublish = false },
		"discard":      func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld },
		"max age":      func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := w.scribe(t)
			w.run(t, s)
			w.reserve(t, 5)
			eventually(t, "6 entries", func() bool { return w.tail(t) == 6 })
			cfg := ledgerConfig()
			change(&cfg)
			_, err := w.js.UpdateStream(t.Context(), cfg)
			must(t, err)
			eventually(t, "not ready", func() bool { return s.Ready() != nil && strings.Contains(s.Ready().Error(), "drifted") })
			w.reserve(t, 5)
			pauseFor(t, 3)
			if n := w.tail(t); n != 6 {
				t.Errorf("%d entries were written", n-6)
			}
			eventually(t, "told", func() bool { n, _ := w.told.count(events.EventLedgerConfigDrift); return n == 1 })
			_, err = w.js.UpdateStream(t.Context(), ledgerConfig())
			must(t, err)
			eventually(t, "it goes on", func() bool { return s.Ready() == nil && w.tail(t) == 11 })
			w.verified(t, 11)
		})
	}
}
