package reconciler_test

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"tallystick/internal/reconciler"
)

// rebuilt is how many partitions a reconciler has rebuilt.
func rebuilt(t *testing.T, r *reconciler.Reconciler) float64 {
	t.Helper()
	reg := prometheus.NewRegistry()
	for _, c := range r.Collectors() {
		must(t, reg.Register(c))
	}
	families, err := reg.Gather()
	must(t, err)
	for _, f := range families {
		if f.GetName() == "tally_reconciler_rebuilt_partitions_total" {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	return 0
}

// TestFiveStartOnAnEmptiedRedis: one of them rebuilds, once.
func TestFiveStartOnAnEmptiedRedis(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.carry(t)
	w.reserve(t, "a", 7)
	eventually(t, "all on the ledger", func() bool { return cause(w.report(t), "outbox_pending").Count == 0 })
	must(t, w.client.FlushAll(t.Context()).Err())
	all := make([]*reconciler.Reconciler, 5)
	for i := range all {
		all[i] = w.reconciler(t)
		background(t, all[i].Run)
	}
	for _, r := range all {
		eventually(t, "ready", func() bool { return r.Ready() == nil })
	}
	total := 0.0
	for _, r := range all {
		total += rebuilt(t, r)
	}
	if want := float64(w.store.Partitions()); total != want {
		t.Errorf("%v partitions were rebuilt, want %v", total, want)
	}
	w.settle(t, "a", 3)
	if o := w.report(t); len(o.Drift) > 0 {
		t.Errorf("%+v", o.Drift)
	}
}

// TestLostWritesAreRebuilt: the scribe's fence is lifted by a rebuild, an
// operator's is not.
func TestLostWritesAreRebuilt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.carry(t)
	w.reserve(t, "a", 7)
	eventually(t, "all on the ledger", func() bool { return cause(w.report(t), "outbox_pending").Count == 0 })
	p := w.store.Partition(org)
	other := (p + 1) % w.store.Partitions()
	must(t, w.store.Fence(t.Context(), other, "maintenance"))
	must(t, w.client.Del(t.Context(), fmt.Sprintf("outbox:{p%02d}", p)).Err())
	eventually(t, "fenced", func() bool { reason, err := w.store.Fenced(t.Context(), p); return err == nil && reason == "lost" })
	background(t, w.rec.Run)
	eventually(t, "open", func() bool { reason, err := w.store.Fenced(t.Context(), p); return err == nil && reason == "" })
	if reason, err := w.store.Fenced(t.Context(), other); err != nil || reason != "maintenance" {
		t.Errorf("an operator's fence: %q, %v", reason, err)
	}
	w.settle(t, "a", 3)
}
