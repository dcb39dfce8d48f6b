package reconciler_test

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"

	"tallystick/internal/ledger"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
	"tallystick/pkg/redisx"
)

// copied gives a function that puts Redis back to what it is now.
func (w *world) copied(t *testing.T) (restore func()) {
	t.Helper()
	ctx, kept := t.Context(), map[string]string{}
	keys, err := w.client.Keys(ctx, "*").Result()
	must(t, err)
	for _, key := range keys {
		kept[key], err = w.client.Dump(ctx, key).Result()
		must(t, err)
	}
	return func() {
		t.Helper()
		must(t, w.client.FlushDB(ctx).Err())
		_, err := w.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for key, text := range kept {
				pipe.Restore(ctx, key, 0, text)
			}
			return nil
		})
		must(t, err)
	}
}

func (w *world) allCarried(t *testing.T) {
	t.Helper()
	eventually(t, "all on the ledger", func() bool { return cause(w.report(t), "outbox_pending").Count == 0 })
}

// corrections are the ledger's, by the kind of what they correct.
func (w *world) corrections(t *testing.T) map[budget.Kind]int {
	t.Helper()
	kinds, out := map[string]budget.Kind{}, map[budget.Kind]int{}
	must(t, w.ledger.Walk(t.Context(), org, 0, func(m ledger.Message) error {
		e, err := ledger.Decode(m.Body)
		must(t, err)
		kinds[m.Hash.String()] = e.Kind
		if e.Kind == budget.KindCorrected {
			var d redisx.UndoDetail
			must(t, json.Unmarshal(e.Detail, &d))
			out[kinds[d.Corrects.Hash]]++
		}
		return nil
	}))
	return out
}

func (w *world) extend(t *testing.T, key, by string, n int64) {
	t.Helper()
	b := w.store.Batch()
	p := b.Extend(redisx.ExtendArgs{
		Caller: agent, Execution: execution(key), Key: by, Fingerprint: "ef", Guess: w.path,
		Add: budget.Amounts{"tokens": n, "usd_microcents": 2 * n},
	})
	b.Run(t.Context())
	if p.Err != nil || p.Decision.Outcome != budget.Allowed && p.Decision.Outcome != "extended" {
		t.Errorf("extend %s: %+v, %v", key, p.Decision, p.Err)
	}
}

// TestLostAndRepeated: an older copy of Redis comes back, and before that is
// noticed agents repeat some of what was lost, or do something else instead.
func TestLostAndRepeated(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lost, after func(*world, *testing.T)
		corrected   map[budget.Kind]int
		held, spent int64 // tokens, beside 7 that are held all the time
	}{
		"reserve repeated": {
			func(w *world, t *testing.T) { w.reserve(t, "b", 3) },
			func(w *world, t *testing.T) { w.reserve(t, "b", 3) },
			map[budget.Kind]int{budget.KindReserved: 1},
			3, 0,
		},
		"reserve not repeated": {
			func(w *world, t *testing.T) { w.reserve(t, "b", 3) },
			func(w *world, t *testing.T) { w.reserve(t, "c", 4) },
			map[budget.Kind]int{},
			7, 0,
		},
		"reserve and settle repeated": {
			func(w *world, t *testing.T) { w.reserve(t, "b", 3); w.settle(t, "b", 2) },
			func(w *world, t *testing.T) { w.reserve(t, "b", 3); w.settle(t, "b", 2) },
			map[budget.Kind]int{budget.KindReserved: 1, budget.KindSettled: 1},
			0, 2,
		},
		"the first caller's settle stands": {
			func(w *world, t *testing.T) { w.settle(t, "s", 2) },
			func(w *world, t *testing.T) { w.release(t, "s") },
			map[budget.Kind]int{budget.KindReleased: 1},
			-5, 2,
		},
		"reserve repeated after its settle": {
			func(w *world, t *testing.T) { w.reserve(t, "b", 3); w.settle(t, "b", 2) },
			func(w *world, t *testing.T) { w.reserve(t, "b", 3) },
			map[budget.Kind]int{budget.KindReserved: 1},
			0, 2,
		},
		"extend repeated": {
			func(w *world, t *testing.T) { w.extend(t, "s", "x", 4) },
			func(w *world, t *testing.T) { w.extend(t, "s", "x", 4) },
			map[budget.Kind]int{budget.KindExtended: 1},
			4, 0,
		},
		"extend lost, settled without": {
			func(w *world, t *testing.T) { w.extend(t, "s", "x", 4) },
			func(w *world, t *testing.T) { w.settle(t, "s", 5) },
			map[budget.Kind]int{budget.KindExtended: 1},
			-5, 5,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			stop := w.carry(t)
			w.reserve(t, "a", 2)
			w.reserve(t, "s", 5)
			w.allCarried(t)
			restore := w.copied(t)
			c.lost(w, t)
			w.allCarried(t)
			stop()
			restore()
			c.after(w, t)
			w.carry(t)
			background(t, w.rec.Run)
			w.healed(t, c.corrected)
			o := w.report(t)
			if len(o.Drift) > 0 {
				t.Errorf("drift: %+v", o.Drift)
			}
			counters, err := w.client.HMGet(t.Context(), w.limitKey("team", "tokens"), "held", "spent").Result()
			must(t, err)
			if want := []any{num(7 + c.held), num(c.spent)}; counters[0] != want[0] || counters[1] != want[1] {
				t.Errorf("held, spent: %v, want %v", counters, want)
			}
			if _, err := w.reconciler(t).Rebuild(t.Context(), []int{w.store.Partition(org)}); err != nil {
				t.Fatal(err)
			}
			if again := w.corrections(t); !maps.Equal(again, c.corrected) {
				t.Errorf("after another rebuild: %v", again)
			}
			if o := w.report(t); len(o.Drift) > 0 {
				t.Errorf("drift after another rebuild: %+v", o.Drift)
			}
		})
	}
}

func num(n int64) string { text, _ := json.Marshal(n); return string(text) }

// healed waits for the event of the rebuild and looks at what was corrected.
func (w *world) healed(t *testing.T, corrected map[budget.Kind]int) {
	t.Helper()
	e := w.rebuiltEvent(t)
	total := 0
	for _, n := range corrected {
		total += n
	}
	if e.Reason != events.RebuildLost || e.Lost.Entries == 0 || e.Corrected != int64(total) {
		t.Errorf("the event: %+v", e)
	}
	if got := w.corrections(t); !maps.Equal(got, corrected) {
		t.Errorf("corrected %v, want %v", got, corrected)
	}
}

// rebuiltEvent is the first event of a rebuild of the org.
func (w *world) rebuiltEvent(t *testing.T) events.PartitionRebuilt {
	t.Helper()
	c, err := w.js.CreateConsumer(t.Context(), events.StreamEvents, jetstream.ConsumerConfig{FilterSubject: events.Event(org, events.EventPartitionRebuilt)})
	must(t, err)
	var msg jetstream.Msg
	eventually(t, "the event of the rebuild", func() bool {
		msg, err = c.Next()
		return err == nil
	})
	e, err := events.ParseEvent(msg.Data())
	must(t, err)
	return e.(events.PartitionRebuilt)
}
