package reconciler_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"tallystick/internal/ledger"
	"tallystick/internal/reconciler"
	"tallystick/internal/registry"
	"tallystick/internal/scribe"
	"tallystick/internal/topology"
	"tallystick/internal/worker"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
)

// losses stands in for the registry.
type losses struct {
	mu               sync.Mutex
	halted, accepted *registry.Loss
}

func (l *losses) get(of **registry.Loss) (registry.Loss, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if *of == nil {
		return registry.Loss{}, false, nil
	}
	return **of, true, nil
}

func (l *losses) set(of **registry.Loss, loss registry.Loss) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	*of = &loss
	return nil
}

func (l *losses) Halted(context.Context) (registry.Loss, bool, error)   { return l.get(&l.halted) }
func (l *losses) Accepted(context.Context) (registry.Loss, bool, error) { return l.get(&l.accepted) }

func (l *losses) Halt(_ context.Context, loss registry.Loss) error { return l.set(&l.halted, loss) }

func (l *losses) Accept(_ context.Context, loss registry.Loss) error {
	return l.set(&l.accepted, loss)
}

// cut makes the ledger anew with its first n entries.
func (w *world) cut(t testing.TB, n int) {
	t.Helper()
	stream, err := w.js.Stream(t.Context(), events.StreamLedger)
	must(t, err)
	var all []*nats.Msg
	for seq := range uint64(n) {
		m, err := stream.GetMsg(t.Context(), seq+1)
		must(t, err)
		header := nats.Header{}
		for _, h := range []string{events.HeaderSeq, events.HeaderPrev, events.HeaderHash, events.HeaderPositions} {
			if v := m.Header.Get(h); v != "" {
				header.Set(h, v)
			}
		}
		all = append(all, &nats.Msg{Subject: m.Subject, Header: header, Data: m.Data})
	}
	must(t, w.js.DeleteStream(t.Context(), events.StreamLedger))
	for _, cfg := range topology.Streams(1) {
		if cfg.Name == events.StreamLedger {
			_, err = w.js.CreateStream(t.Context(), cfg)
			must(t, err)
		}
	}
	for _, m := range all {
		_, err := w.js.PublishMsg(t.Context(), m)
		must(t, err)
	}
}

// forget drops the oldest entries of the org's outbox.
func (w *world) forget(t testing.TB, n int64) {
	t.Helper()
	p := w.store.Partition(org)
	page, err := w.store.OutboxRead(t.Context(), p, "", n)
	must(t, err)
	for _, e := range page.Entries {
		must(t, w.client.XDel(t.Context(), fmt.Sprintf("outbox:{p%02d}", p), e.OutboxID).Err())
	}
}

// TestAcceptLoss: entries are gone from the ledger and from the outbox. The
// counters win: the gap books what no entry says, spent money stays spent, and
// a hold whose reserved is lost can still be settled.
func TestAcceptLoss(t *testing.T) {
	t.Parallel()
	w, record := newWorld(t), &losses{}
	r, err := reconciler.New(reconciler.Config{
		Store: w.store, Ledger: w.ledger, Events: ledger.NewEvents(w.js), Epochs: w.epochs, Losses: record, Log: zerolog.Nop(),
		OutstandingEvery: 20 * time.Millisecond, CompareEvery: time.Hour, DrainTimeout: 10 * time.Second,
	})
	must(t, err)
	w.rec = r
	stop := w.carry(t)
	for i := range 20 {
		w.reserve(t, fmt.Sprint(i), 100)
	}
	for i := range 10 {
		w.settle(t, fmt.Sprint(i), 60)
	}
	eventually(t, "32 entries", func() bool { m, _, err := w.ledger.Tail(t.Context()); return err == nil && m.StreamSeq == 32 })
	w.report(t) // it has folded them
	stop()
	w.cut(t, 12)
	w.forget(t, 27)
	s, err := scribe.New(scribe.Config{
		Store: w.store, Ledger: w.ledger, Losses: record, Log: zerolog.Nop(), Retry: 10 * time.Millisecond, HaltedEvery: 20 * time.Millisecond,
	})
	must(t, err)
	accept := func(why, body string) (events.AcceptLossAnswer, error) {
		raw, err := r.Verbs()[events.AdminAcceptLoss](t.Context(), worker.AdminRequest{By: events.ByOperator, Why: why, Body: []byte(body)})
		if err != nil {
			return events.AcceptLossAnswer{}, err
		}
		return events.ParseAcceptLossAnswer(raw)
	}
	var refused *events.Error
	if _, err := accept("why", "{}"); !errors.As(err, &refused) || refused.Code != events.CodeNotFound {
		t.Errorf("before the halt: %v", err)
	}
	background(t, s.Run)
	eventually(t, "halted", func() bool { return errors.Is(s.Ready(), ledger.ErrBehind) })
	eventually(t, "on record", func() bool { _, ok, _ := record.Halted(t.Context()); return ok })
	if o := w.report(t); len(o.Drift) == 0 {
		t.Error("the loss does not show as drift")
	}
	if _, err := accept("", "{}"); !errors.As(err, &refused) || refused.Code != events.CodeInvalidArgument {
		t.Errorf("without a reason: %v", err)
	}
	if _, err := accept("why", `{"org":"other"}`); !errors.As(err, &refused) || refused.Field != "org" {
		t.Errorf("for an org that lost nothing: %v", err)
	}
	a, err := accept("the disk died", "{}")
	if err != nil || a.TailStreamSeq != 12 || a.LostToStreamSeq != 32 || len(a.Orgs) != 1 || a.Orgs[0].AfterSeq != 12 || a.Orgs[0].Limits != 4 {
		t.Fatalf("answer %+v, %v", a, err)
	}
	eventually(t, "ready", func() bool { return s.Ready() == nil })
	eventually(t, "5 kept entries and the gap", func() bool { m, _, err := w.ledger.Tail(t.Context()); return err == nil && m.StreamSeq == 18 })
	if o := w.report(t); len(o.Drift) > 0 {
		t.Errorf("drift: %+v", o.Drift)
	}
	v, err := w.ledger.Verify(t.Context(), org)
	if err != nil || v.Verdict != ledger.VerdictGap || *v.FirstBad != 18 {
		t.Errorf("verify: %+v, %v", v, err)
	}
	w.isGap(t, 18)
	w.goesOn(t)
	if _, err := accept("again", "{}"); !errors.As(err, &refused) || refused.Code != events.CodeNotFound {
		t.Errorf("after it went on: %v", err)
	}
}

// goesOn: what was held before the loss is settled, and nothing drifts.
func (w *world) goesOn(t testing.TB) {
	t.Helper()
	for i := 10; i < 20; i++ {
		w.settle(t, fmt.Sprint(i), 60)
	}
	eventually(t, "10 settles", func() bool { m, _, err := w.ledger.Tail(t.Context()); return err == nil && m.StreamSeq == 28 })
	if o := w.report(t); len(o.Drift) > 0 {
		t.Errorf("drift after the settles: %+v", o.Drift)
	}
	spent, err := w.client.HGet(t.Context(), w.limitKey("team", "tokens"), "spent").Int()
	if err != nil || spent != 1200 {
		t.Errorf("spent %d, %v; want 20 times 60", spent, err)
	}
}

func (w *world) isGap(t testing.TB, seq uint64) {
	t.Helper()
	m, _, err := w.ledger.At(t.Context(), seq)
	must(t, err)
	e, err := ledger.Decode(m.Body)
	must(t, err)
	var d map[string]any
	must(t, json.Unmarshal(e.Detail, &d))
	if e.Kind != budget.KindGap || d["after_seq"] != 12.0 || d["lost_to_stream_seq"] != 32.0 || d["reason"] != "the disk died" || d["by"] != "operator" {
		t.Errorf("gap: %s %+v", e.Kind, d)
	}
}
