package budget

import (
	"fmt"
	"testing"
)

// One row per outcome of the model's correction, in order of precedence.
func TestModelCorrect(t *testing.T) {
	t.Parallel()
	call := func(n int64) CorrectCall {
		return CorrectCall{Agent: alice, Execution: "x", Fingerprint: fmt.Sprint(n), Kind: KindCorrected, Amounts: Amounts{"usd": n}, Limits: []LimitID{teamUSD, rootUSD}}
	}
	said := func(b *bench, c CorrectCall) string {
		done, es, err := b.Correct(t0, c)
		b.took(es)
		if err != nil {
			return err.Error()
		}
		return fmt.Sprint(done.Kind, " ", len(done.Moves), " ", done.PoolMissing, " ", done.Replayed)
	}
	for _, row := range []struct {
		name        string
		do          func(*bench) string
		want        string
		team, spent int64
	}{
		{"fenced", func(b *bench) string { b.Fence(); return said(b, call(-4)) }, "unavailable", 10, 10},
		{"replayed", func(b *bench) string { said(b, call(-4)); return said(b, call(-4)) }, "corrected 2 false true", 6, 6},
		{"key reused", func(b *bench) string { said(b, call(-4)); return said(b, call(-5)) }, "idempotency key reused with other content", 6, 6},
		{"below zero", func(b *bench) string { return said(b, call(-11)) }, "out of range: pool team has spent 10 usd", 10, 10},
		{"above", func(b *bench) string { return said(b, call(MaxAmount-9)) }, "out of range: pool team has spent 10 usd", 10, 10},
		{"to zero", func(b *bench) string { return said(b, call(-10)) }, "corrected 2 false false", 0, 0},
		{"missing", func(b *bench) string { b.LoseLimit(teamUSD); return said(b, call(-10)) }, "corrected 2 true false", 0, 0},
		{"dispute", func(b *bench) string {
			c := call(5)
			c.Kind, c.Limits = KindDisputed, nil
			return said(b, c)
		}, "disputed 0 false false", 10, 10},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			_, es, err := b.Charge(t0, ChargeCall{Agent: alice, Execution: "c", Fingerprint: "f", Amounts: usd(10), Path: path(), Incurred: true})
			if err != nil {
				t.Fatal(err)
			}
			b.took(es)
			if got := row.do(b); got != row.want {
				t.Errorf("%s, want %s", got, row.want)
			}
			team, _ := b.Counters(teamUSD)
			root, _ := b.Counters(rootUSD)
			if team.Spent != row.team && row.name != "missing" || root.Spent != row.spent {
				t.Errorf("spent team %d, root %d", team.Spent, root.Spent)
			}
		})
	}
}
