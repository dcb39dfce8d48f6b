package cli

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tallystick/pkg/events"
)

func (e *environment) ledgerCorrect() *cobra.Command {
	c := e.correction("correct", events.KindCorrected, "Change what an entry spent; the entry itself stays")
	c.Example = "  tallystick ledger correct --org acme --seq 17 --amount usd_microcents=-250000 --reason 'billed twice'"
	return c
}

func (e *environment) ledgerRefund() *cobra.Command {
	c := e.correction("refund", events.KindRefunded, "Write down that a provider gave money back: spent goes down")
	c.Example = "  tallystick ledger refund --org acme --seq 17 --amount usd_microcents=250000 --reason 'credit note 9'"
	return c
}

func (e *environment) ledgerDispute() *cobra.Command {
	c := e.correction("dispute", events.KindDisputed, "Write down that a cost is disputed; no counter moves until it is corrected or refunded")
	c.Example = "  tallystick ledger dispute --org acme --seq 17 --amount usd_microcents=250000 --reason 'claim 4'"
	return c
}

// correction is one of the three commands, which differ in the entry's kind.
func (e *environment) correction(use string, kind events.LedgerKind, short string) *cobra.Command {
	var q events.LedgerCorrect
	var key, hash, evidence string
	var amount []string
	c := &cobra.Command{
		Use: use + " --org ORG --seq N --amount UNIT=N... --reason TEXT", Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if q.Amounts, err = signedAmounts(amount); err != nil {
				return err
			}
			q.Kind = new(string(kind))
			if hash != "" {
				q.Hash = &hash
			}
			if evidence != "" {
				q.Evidence = &evidence
			}
			if key == "" {
				key = fresh()
			}
			return e.admin(cmd, events.AdminLedgerCorrect, key, q, e.showCorrection)
		},
	}
	f := c.Flags()
	f.StringVar(&q.Org, "org", "", "`ORG`")
	f.Int64Var(&q.Seq, "seq", 0, "sequence of the entry, as `ledger list` shows it")
	f.StringArrayVar(&amount, "amount", nil, "`UNIT=N`, once per unit; correct takes N below 0 too")
	f.StringVar(&q.Reason, "reason", "", "for the ledger: `TEXT` of at most 256 bytes")
	f.StringVar(&hash, "hash", "", "only if the entry has this `HASH`")
	f.StringVar(&evidence, "evidence", "", "`ID` of a file that is kept as evidence")
	f.StringVar(&key, "key", "", "idempotency `KEY`: repeat it on every retry; default: a fresh one")
	require(c, "org", "seq", "amount", "reason")
	return c
}

// signedAmounts reads UNIT=N flags where N may be below 0.
func signedAmounts(args []string) (map[string]int64, error) {
	m := make(map[string]int64, len(args))
	for _, a := range args {
		unit, digits, _ := strings.Cut(a, "=")
		n, err := strconv.ParseInt(digits, 10, 64)
		if unit == "" || err != nil || n == 0 {
			return nil, usagef("--amount %q: want UNIT=N, for example usd_microcents=-250000", a)
		}
		if _, dup := m[unit]; dup {
			return nil, usagef("--amount names %s twice", unit)
		}
		m[unit] = n
	}
	return m, nil
}

func (e *environment) showCorrection(body []byte) error {
	a, err := events.ParseLedgerCorrectAnswer(body)
	if err != nil {
		return err
	}
	t := newTable(e.out)
	t.row("outcome", a.Outcome)
	t.row("entry", strconv.FormatUint(a.Seq, 10)+" "+a.Hash)
	t.row("id", a.ID)
	for _, m := range a.Moves {
		line := m.Pool + " " + m.Period + " spent " + amount(m.Unit, m.Spent) + " " + m.Unit
		if m.Missing {
			line += " (missing)"
		}
		t.row("moved", line)
	}
	return t.flush()
}
