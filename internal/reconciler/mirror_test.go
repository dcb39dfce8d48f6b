package reconciler_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"tallystick/internal/ledger"
	"tallystick/internal/reconciler"
	"tallystick/pkg/events"
)

// gauge reads one of a reconciler's gauges.
func gauge(t *testing.T, r *reconciler.Reconciler, name string) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(r.Collectors()...)
	families, err := registry.Gather()
	must(t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// mirrored adds a mirror to the world, and a reconciler that looks at it.
func (w *world) mirrored(t *testing.T) *reconciler.Reconciler {
	t.Helper()
	_, err := w.js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: events.StreamMirror, Mirror: &jetstream.StreamSource{Name: events.StreamLedger},
	})
	must(t, err)
	mirror, err := ledger.OpenMirror(t.Context(), w.js)
	must(t, err)
	r, err := reconciler.New(reconciler.Config{
		Store: w.store, Ledger: w.ledger, Events: ledger.NewEvents(w.js), Epochs: w.epochs, Mirror: mirror, Log: zerolog.Nop(),
		MirrorEvery: 20 * time.Millisecond,
	})
	must(t, err)
	return r
}

func (w *world) mirrorHas(t *testing.T, n uint64) {
	t.Helper()
	s, err := w.js.Stream(t.Context(), events.StreamMirror)
	must(t, err)
	eventually(t, fmt.Sprintf("the mirror has %d entries", n), func() bool {
		info, err := s.Info(t.Context())
		return err == nil && info.State.LastSeq == n
	})
}

func (w *world) entries(t *testing.T) uint64 {
	t.Helper()
	tail, _, err := w.ledger.Tail(t.Context())
	must(t, err)
	return tail.StreamSeq
}

func TestMirrorIsChecked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.carry(t)
	w.reserve(t, "a", 10)
	eventually(t, "the entries are on the ledger", func() bool { return w.entries(t) >= 3 })
	r := w.mirrored(t)
	background(t, r.Run)
	w.mirrorHas(t, w.entries(t))
	eventually(t, "it follows", func() bool {
		return r.Ready() == nil && gauge(t, r, "tally_reconciler_mirror_lag_entries") == 0 && gauge(t, r, "tally_reconciler_mirror_bad") == 0
	})
}

// A ledger that somebody deleted and made anew with other entries: the mirror
// keeps the old ones, and the check tells.
func TestMirrorFindsAnotherLedger(t *testing.T) {
	t.Parallel()
	for name, forged := range map[string]int{"with as many entries": 5, "with fewer": 1, "empty": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			forge := func(n int, what string) {
				for i := range n {
					_, err := w.js.Publish(t.Context(), events.Ledger(org, "reserved"), fmt.Appendf(nil, `{"n":%d,"what":%q}`, i, what))
					must(t, err)
				}
			}
			forge(5, "true")
			r := w.mirrored(t)
			w.mirrorHas(t, 5)
			old, err := w.js.Stream(t.Context(), events.StreamLedger)
			must(t, err)
			cfg := old.CachedInfo().Config
			must(t, w.js.DeleteStream(t.Context(), events.StreamLedger))
			_, err = w.js.CreateStream(t.Context(), cfg)
			must(t, err)
			forge(forged, "forged")
			background(t, r.Run)
			eventually(t, "the alarm", func() bool { return gauge(t, r, "tally_reconciler_mirror_bad") == 1 })
		})
	}
}
