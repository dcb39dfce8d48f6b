package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"tallystick/internal/ledger"
	"tallystick/internal/reconciler"
	"tallystick/internal/registry"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
)

func (w *world) folds(t testing.TB) *registry.Objects {
	t.Helper()
	_, err := w.js.CreateOrUpdateObjectStore(t.Context(), jetstream.ObjectStoreConfig{Bucket: events.StoreFolds})
	must(t, err)
	o, err := registry.OpenObjects(t.Context(), w.js, events.StoreFolds)
	must(t, err)
	return o
}

// keeping is a reconciler that keeps folds, as a process of its own.
func (w *world) keeping(t testing.TB, folds reconciler.Folds) *reconciler.Reconciler {
	t.Helper()
	r, err := reconciler.New(reconciler.Config{
		Store: w.store, Ledger: w.ledger, Events: ledger.NewEvents(w.js), Epochs: w.epochs, Folds: folds, Log: zerolog.New(t.Output()),
		OutstandingEvery: 20 * time.Millisecond, CompareEvery: time.Hour, DrainTimeout: 10 * time.Second, KeepEntries: 10,
	})
	must(t, err)
	return r
}

// metric is the sum of a metric's values with a label, or of all where it is "".
func metric(t testing.TB, r *reconciler.Reconciler, name, label string) (sum float64) {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(r.Collectors()...)
	families, err := registry.Gather()
	must(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (label == "" || m.GetLabel()[0].GetValue() == label) {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

func folded(t testing.TB, r *reconciler.Reconciler, result string) float64 {
	t.Helper()
	return metric(t, r, "tally_reconciler_folds_total", result)
}

// history makes some of everything, and carries it to the ledger.
func (w *world) history(t testing.TB, name string) {
	t.Helper()
	stop := w.carry(t)
	for i := range 40 {
		key := fmt.Sprint(name, i)
		w.reserveFor(t, key, []string{"", "team"}[i%2], 100)
		switch i % 4 {
		case 0:
			w.settle(t, key, 60)
		case 1:
			w.release(t, key)
		case 2:
			w.settle(t, key, 150) // refused
		}
	}
	eventually(t, "all on the ledger", func() bool { return cause(w.report(t), "outbox_pending").Count == 0 })
	stop()
}

// live lets a reconciler run until it is ready.
func live(t testing.TB, r *reconciler.Reconciler) {
	t.Helper()
	stop := background(t, r.Run)
	eventually(t, "ready", func() bool { return r.Ready() == nil })
	stop()
}

// TestGoesOnFromAKeptFold: the next process reads only what came after, and
// says what one says that has read everything.
func TestGoesOnFromAKeptFold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	folds := w.folds(t)
	for i := range 4 {
		w.history(t, fmt.Sprint("h", i, "-"))
		r := w.keeping(t, folds)
		live(t, r)
		if loaded := folded(t, r, "loaded"); loaded != float64(min(i, 1)) {
			t.Errorf("round %d: loaded %v folds", i, loaded)
		}
		if folded(t, r, "saved") == 0 || folded(t, r, "unusable")+folded(t, r, "failed") > 0 {
			t.Errorf("round %d: saved %v, failed %v", i, folded(t, r, "saved"), folded(t, r, "failed"))
		}
	}
	kept, err := folds.List(t.Context(), "")
	must(t, err)
	if len(kept) != 2 {
		t.Errorf("kept: %+v", kept)
	}
	w.history(t, "last-")
	w.agree(t, w.keeping(t, folds), 1)
}

// agree compares a reconciler with one that has read everything.
func (w *world) agree(t testing.TB, r *reconciler.Reconciler, loaded float64) {
	t.Helper()
	fresh := w.reconciler(t)
	want, err := fresh.Reconcile(t.Context(), "")
	must(t, err)
	got, err := r.Reconcile(t.Context(), "")
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" || got.Verdict != events.VerdictOK {
		t.Errorf("%s: %s", got.Verdict, diff)
	}
	wantBalance, err := fresh.PrincipalBalance(t.Context(), org, "team")
	must(t, err)
	gotBalance, err := r.PrincipalBalance(t.Context(), org, "team")
	must(t, err)
	if diff := cmp.Diff(wantBalance, gotBalance); diff != "" || len(gotBalance.Balance) == 0 {
		t.Error(diff)
	}
	if n := folded(t, r, "loaded"); n != loaded {
		t.Errorf("loaded %v folds, want %v", n, loaded)
	}
}

// TestDoubtfulFoldsAreThrownAway: corrupt, of another version, of another
// ledger.
func TestDoubtfulFoldsAreThrownAway(t *testing.T) {
	t.Parallel()
	w, other := newWorld(t), newWorld(t)
	w.history(t, "a")
	other.history(t, "other")
	folds, others := w.folds(t), other.folds(t)
	live(t, w.keeping(t, folds))
	live(t, other.keeping(t, others))
	own, foreign := content(t, folds), content(t, others)
	for _, c := range []struct {
		name string
		file []byte
	}{
		{"cut", own[:len(own)-1]},
		{"flipped", flipped(own, len(own)/2)},
		{"another version", flipped(own, len("tally-fold\n"))},
		{"another ledger", foreign},
		{"empty", nil},
	} {
		name := "fold/99999999999999999999-" + c.name
		_, _, err := folds.Put(t.Context(), name, nil, c.file)
		must(t, err)
		r := w.keeping(t, folds)
		w.agree(t, r, 1) // the older one
		if folded(t, r, "unusable") != 1 {
			t.Errorf("%s: unusable %v", c.name, folded(t, r, "unusable"))
		}
		if _, err := folds.Stat(t.Context(), name); !errors.Is(err, registry.ErrNotFound) {
			t.Errorf("%s is still there: %v", c.name, err)
		}
	}
}

func content(t testing.TB, folds *registry.Objects) []byte {
	t.Helper()
	all, err := folds.List(t.Context(), "fold/")
	must(t, err)
	if len(all) == 0 {
		t.Fatal("no fold was kept")
	}
	_, file, err := folds.Get(t.Context(), all[len(all)-1].Name)
	must(t, err)
	return file
}

func flipped(file []byte, at int) []byte {
	out := append([]byte(nil), file...)
	out[at] ^= 0x40
	return out
}

// away is a store of folds that cannot be reached.
type away struct{}

var errAway = errors.New("away")

func (away) Put(context.Context, string, map[string]string, []byte) (registry.Object, bool, error) {
	return registry.Object{}, false, errAway
}

func (away) Get(context.Context, string) (registry.Object, []byte, error) {
	return registry.Object{}, nil, errAway
}
func (away) List(context.Context, string) ([]registry.Object, error) { return nil, errAway }
func (away) Remove(context.Context, string) error                    { return errAway }

func TestWithoutFoldsTheLedgerIsFolded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.history(t, "a")
	r := w.keeping(t, away{})
	live(t, r)
	w.agree(t, r, 0)
	if folded(t, r, "failed") < 2 {
		t.Errorf("failed: %v", folded(t, r, "failed"))
	}
}

// TestTwoReconcilers: both keep folds, both compare at once, both say the same.
func TestTwoReconcilers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	folds := w.folds(t)
	a, b := w.keeping(t, folds), w.keeping(t, folds)
	background(t, a.Run)
	background(t, b.Run)
	for i := range 3 {
		w.history(t, fmt.Sprint("h", i, "-"))
		w.reserve(t, fmt.Sprint("pending", i), 5)
		var answers [2]events.ReconcileAnswer
		var both sync.WaitGroup
		for j, r := range []*reconciler.Reconciler{a, b} {
			both.Go(func() {
				var err error
				if answers[j], err = r.Reconcile(t.Context(), ""); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
		if diff := cmp.Diff(answers[0], answers[1]); diff != "" || answers[0].Verdict != events.VerdictOK {
			t.Errorf("%s: %s", answers[0].Verdict, diff)
		}
	}
	eventually(t, "both have kept", func() bool { return folded(t, a, "saved") > 0 && folded(t, b, "saved") > 0 })
	w.agree(t, w.keeping(t, folds), 1)
}

// TestLostReserveTakenAgain: two reserved entries of one execution are one
// outstanding reservation.
func TestLostReserveTakenAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.reserve(t, "a", 5)
	name := fmt.Sprintf("reservation:{p%02d}%d:%s", w.store.Partition(org), len(execution("a")), execution("a"))
	must(t, w.client.Del(t.Context(), name).Err())
	w.reserve(t, "a", 5)
	w.carry(t)
	background(t, w.rec.Run)
	field := fmt.Sprintf("%d:%s4:root6:tokens4:none", len(org), org)
	eventually(t, "one is outstanding", func() bool {
		n, err := w.client.HGet(t.Context(), fmt.Sprintf("outstanding:{p%02d}", w.store.Partition(org)), field).Result()
		return err == nil && n == "1"
	})
	if p := w.settle(t, "a", 5); p.Decision.Outcome != budget.Settled {
		t.Errorf("settle: %+v", p.Decision)
	}
}
