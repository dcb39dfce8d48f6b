package scribe_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/nats-io/nats.go"

	"tallystick/internal/ledger"
	"tallystick/internal/registry"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
	"tallystick/pkg/redisx"
)

// forget drops the oldest entries of the org's outbox, as age does.
func (w *world) forget(t testing.TB, n int) {
	t.Helper()
	p := w.store.Partition(org)
	page, err := w.store.OutboxRead(t.Context(), p, "", int64(n))
	must(t, err)
	for _, e := range page.Entries {
		must(t, w.client.XDel(t.Context(), fmt.Sprintf("outbox:{p%02d}", p), e.OutboxID).Err())
	}
}

// stored is every entry of the stream.
func (w *world) stored(t testing.TB) []ledger.Message {
	t.Helper()
	var out []ledger.Message
	must(t, w.ledger.Walk(t.Context(), "", 0, func(m ledger.Message) error {
		m.Positions = ""
		out = append(out, m)
		return nil
	}))
	return out
}

// cut makes the ledger anew with its first n entries, as a copy of the store
// of an earlier time has them. Where n lies within a batch, its end is missing.
func (w *world) cut(t testing.TB, n int) {
	t.Helper()
	var all []*nats.Msg
	stream, err := w.js.Stream(t.Context(), events.StreamLedger)
	must(t, err)
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
	w.makeLedger(t)
	for _, m := range all {
		_, err := w.js.PublishMsg(t.Context(), m)
		must(t, err)
	}
}

func same(a, b []ledger.Message) bool {
	return slices.EqualFunc(a, b, func(x, y ledger.Message) bool {
		return x.StreamSeq == y.StreamSeq && x.Subject == y.Subject && x.Seq == y.Seq && x.Prev == y.Prev && x.Hash == y.Hash && string(x.Body) == string(y.Body)
	})
}

// TestRefill: what the ledger lost is written again, bit by bit the same,
// wherever it was cut.
func TestRefill(t *testing.T) {
	t.Parallel()
	for _, keep := range []int{0, 1, 7, 1000, 1207} {
		t.Run(fmt.Sprint(keep), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.reserve(t, 1207)
			stop := w.run(t, w.scribe(t))
			eventually(t, "1208 entries", func() bool { return w.tail(t) == 1208 })
			must(t, stop())
			before := w.stored(t)
			w.cut(t, keep)
			s := w.scribe(t)
			w.run(t, s)
			eventually(t, "ready", func() bool { return s.Ready() == nil })
			if after := w.stored(t); !same(before, after) {
				t.Fatalf("%d entries, not the same as the %d before", len(after), len(before))
			}
			n, last := w.told.count(events.EventLedgerRefilled)
			e, _ := last.(events.LedgerRefilled)
			if n != 1 || e.Org != org || e.From != uint64(keep+1) || e.To != 1208 || e.Hash != before[1207].Hash.String() {
				t.Errorf("%d events, the last: %+v", n, last)
			}
			w.reserve(t, 3)
			eventually(t, "it goes on", func() bool { return w.tail(t) == 1211 })
			w.verified(t, 1211)
		})
	}
}

// TestRefillWhileRunning: the stream goes back under a running scribe.
func TestRefillWhileRunning(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.scribe(t)
	w.run(t, s)
	w.reserve(t, 40)
	eventually(t, "41 entries", func() bool { return w.tail(t) == 41 })
	w.cut(t, 12)
	w.reserve(t, 5)
	eventually(t, "46 entries", func() bool { return w.tail(t) == 46 })
	w.verified(t, 46)
}

// TestRefillOfManyPartitions: each org's chain is what it was.
func TestRefillOfManyPartitions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.run(t, w.scribe(t))
	orgs := []string{"o1", "o2", "o3", "o4", "o5", "o6"}
	for i := range 5 {
		for _, o := range orgs {
			_, err := w.store.ApplyPolicy(t.Context(), redisx.PolicyArgs{Org: o, Pool: "p", Rev: int64(i + 1), Limits: []redisx.PolicyLimit{
				{Unit: "tokens", Period: budget.PeriodNone, Cap: int64(100 + i), OnOverrun: "reject", State: "open"},
			}})
			must(t, err)
		}
	}
	eventually(t, "31 entries", func() bool { return w.tail(t) == 31 })
	must(t, stop())
	heads := map[string]ledger.Hash{}
	for _, o := range orgs {
		m, _, err := w.ledger.OrgTail(t.Context(), o)
		must(t, err)
		heads[o] = m.Hash
	}
	w.cut(t, 11)
	s := w.scribe(t)
	w.run(t, s)
	eventually(t, "ready", func() bool { return s.Ready() == nil })
	for _, o := range orgs {
		m, _, err := w.ledger.OrgTail(t.Context(), o)
		must(t, err)
		if m.Hash != heads[o] || m.Seq != 5 {
			t.Errorf("%s: head %d %s", o, m.Seq, m.Hash)
		}
	}
}

// TestNoRefillOfAnother: the outbox holds as many entries, but not the same.
func TestNoRefillOfAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.reserve(t, 20)
	stop := w.run(t, w.scribe(t))
	eventually(t, "21 entries", func() bool { return w.tail(t) == 21 })
	must(t, stop())
	w.cut(t, 10)
	key := fmt.Sprintf("outbox:{p%02d}", w.store.Partition(org))
	raw, err := w.client.XRange(t.Context(), key, "-", "+").Result()
	must(t, err)
	must(t, w.client.Del(t.Context(), key).Err())
	for i, m := range raw {
		if i == 15 {
			m.Values = raw[14].Values
		}
		must(t, w.client.Do(t.Context(), "XADD", key, m.ID, "e", m.Values["e"]).Err())
	}
	s := w.scribe(t)
	w.run(t, s)
	eventually(t, "halted", func() bool { return errors.Is(s.Ready(), ledger.ErrBehind) })
	if w.tail(t) != 10 {
		t.Error("something was written")
	}
}

// TestAcceptedLoss: a halted scribe goes on where an operator accepts exactly
// this loss, and says what it waits for once.
func TestAcceptedLoss(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.reserve(t, 20)
	stop := w.run(t, w.scribe(t))
	eventually(t, "21 entries", func() bool { return w.tail(t) == 21 })
	must(t, stop())
	w.cut(t, 10)
	w.forget(t, 15)
	s := w.scribe(t)
	w.run(t, s)
	eventually(t, "halted", func() bool { return errors.Is(s.Ready(), ledger.ErrBehind) })
	eventually(t, "on record", func() bool {
		w.losses.mu.Lock()
		defer w.losses.mu.Unlock()
		return w.losses.halted != nil && w.losses.halted.AnchorSeq == 21 && w.losses.halted.TailSeq == 10
	})
	w.losses.accept(func(l *registry.Loss) { l.AnchorSeq = 20 })
	pauseFor(t, 4)
	if s.Ready() == nil {
		t.Fatal("it took the acceptance of another loss")
	}
	w.losses.accept(func(*registry.Loss) {})
	eventually(t, "ready", func() bool { return s.Ready() == nil })
	eventually(t, "what the outbox has", func() bool { return w.tail(t) == 16 })
	w.verified(t, 16)
	if n, _ := w.told.count(events.EventLedgerHalted); n != 1 {
		t.Errorf("%d events", n)
	}
	text, err := os.ReadFile(w.anchor)
	must(t, err)
	if string(text) == "" {
		t.Error("no anchor")
	}
}
