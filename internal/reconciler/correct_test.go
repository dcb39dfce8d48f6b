package reconciler_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"tallystick/internal/ledger"
	"tallystick/internal/reconciler"
	"tallystick/internal/worker"
	"tallystick/pkg/events"
)

// TestCorrectFindsTheEntry: whichever of a long ledger's entries is named, the
// correction names its hash; what is not there is not found.
func TestCorrectFindsTheEntry(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.carry(t)
	for i := range 40 {
		w.chargeFor(t, fmt.Sprint(i), "team", 10)
	}
	eventually(t, "everything is on the ledger", func() bool { return cause(w.report(t), "outbox_pending").Count == 0 })
	hashes := map[uint64]string{}
	must(t, w.ledger.Walk(t.Context(), org, 0, func(m ledger.Message) error {
		hashes[m.Seq] = m.Hash.String()
		return nil
	}))
	last := uint64(len(hashes))
	for seq := range hashes {
		m, ok, err := w.ledger.Find(t.Context(), org, seq)
		if err != nil || !ok || m.Seq != seq || m.Hash.String() != hashes[seq] {
			t.Errorf("entry %d: %+v %v %v", seq, m, ok, err)
		}
	}
	for org, seqs := range map[string][]uint64{org: {0, last + 1, 1 << 60}, "nobody": {1}} {
		for _, seq := range seqs {
			if m, ok, err := w.ledger.Find(t.Context(), org, seq); ok || err != nil {
				t.Errorf("%s %d: %+v %v", org, seq, m, err)
			}
		}
	}
}

// TestCorrectWithEvidence: what the store says of the file stands on the
// ledger; without a store, or without the file, nothing is done. Nor is it
// without a key, or to a policy.
func TestCorrectWithEvidence(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	w, without := a.world, a.world.reconciler(t)
	w.carry(t)
	w.chargeFor(t, "c", "team", 10)
	eventually(t, "everything is on the ledger", func() bool { return cause(w.report(t), "outbox_pending").Count == 0 })
	tail, _, err := w.ledger.OrgTail(t.Context(), org)
	must(t, err)
	stored, err := a.put(parts(org, "", pdf(1234, 1))[0])
	must(t, err)
	rivals, err := a.put(parts("rival", "", pdf(1234, 2))[0])
	must(t, err)
	known, unknown := stored.Evidence, rivals.Evidence
	ask := func(r *reconciler.Reconciler, key string, q events.LedgerCorrect) string {
		q.Org, q.Reason, q.Amounts = org, "r", map[string]int64{"tokens": -3}
		body, err := json.Marshal(q)
		must(t, err)
		answer, err := r.Verbs()[events.AdminLedgerCorrect](t.Context(), worker.AdminRequest{Key: key, Body: body, By: events.ByOperator, Why: "w"})
		var refused *events.Error
		switch {
		case errors.As(err, &refused):
			return string(refused.Code) + " " + refused.Field
		case err != nil:
			t.Fatal(err)
		}
		a, err := events.ParseLedgerCorrectAnswer(answer)
		must(t, err)
		return fmt.Sprint(a.Outcome, len(a.Moves))
	}
	seq := int64(tail.Seq)
	for _, row := range []struct {
		name, want string
		got        string
	}{
		{"no store", "invalid_argument evidence", ask(without, "k", events.LedgerCorrect{Seq: seq, Evidence: &known})},
		{"another's file", "not_found evidence", ask(a.rec, "k", events.LedgerCorrect{Seq: seq, Evidence: &unknown})},
		{"no key", "invalid_argument " + events.HeaderKey, ask(a.rec, "", events.LedgerCorrect{Seq: seq})},
		{"a policy", "invalid_argument amounts.tokens", ask(a.rec, "k", events.LedgerCorrect{Seq: 1})},
		{"done", "corrected2", ask(a.rec, "k", events.LedgerCorrect{Seq: seq, Evidence: &known})},
	} {
		if row.got != row.want {
			t.Errorf("%s: %s, want %s", row.name, row.got, row.want)
		}
	}
	eventually(t, "the correction is on the ledger", func() bool {
		m, _, err := w.ledger.OrgTail(t.Context(), org)
		return err == nil && m.Seq > tail.Seq &&
			strings.Contains(string(m.Body), `"evidence":{"id":"`+known+`","type":"application/pdf","size":1234}`) &&
			strings.Contains(string(m.Body), fmt.Sprintf(`"corrects":{"seq":%d,"hash":"%s"}`, tail.Seq, tail.Hash))
	})
	if o := w.report(t); len(o.Drift) != 0 {
		t.Errorf("drift %+v", o.Drift)
	}
}
