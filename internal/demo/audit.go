package demo

import (
	"context"
	"encoding/json"

	"tallystick/internal/ledger"
	"tallystick/pkg/events"
)

// audit: the chain verifies, and the counters are what the ledger explains.
func (s *story) audit(ctx context.Context) error {
	s.title("The audit")
	v := ledger.NewVerifier(org)
	for after := uint64(0); ; {
		body, err := s.op.Do(ctx, events.AdminLedger, "", map[string]any{"org": org, "after": after})
		if err != nil {
			return err
		}
		var page struct {
			Entries []ledger.Message
			Last    uint64
			End     bool
		}
		if err := json.Unmarshal(body, &page); err != nil {
			return err
		}
		for _, m := range page.Entries {
			v.Add(m)
		}
		if page.End || len(page.Entries) == 0 {
			break
		}
		after = page.Last
	}
	found := v.Result()
	s.promise(found.Verdict == ledger.VerdictOK && found.Entries > 0, "the ledger is a whole chain", "verify: %s, %d entries, head %.12s…", found.Verdict, found.Entries, found.Head)

	body, err := s.op.Do(ctx, events.AdminReconcile, "", map[string]any{"org": org})
	if err != nil {
		return err
	}
	var report struct {
		Verdict string
		Orgs    []struct{ Drift []json.RawMessage }
	}
	if err := json.Unmarshal(body, &report); err != nil {
		return err
	}
	drifting := 0
	for _, o := range report.Orgs {
		drifting += len(o.Drift)
	}
	s.promise(report.Verdict == "ok" && drifting == 0, "the ledger explains every unit", "reconcile: %s, drift %d", report.Verdict, drifting)
	return nil
}
