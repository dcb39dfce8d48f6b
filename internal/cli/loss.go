package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"tallystick/pkg/events"
)

func (e *environment) ledgerAcceptLoss() *cobra.Command {
	var org string
	var all bool
	c := &cobra.Command{
		Use:   "accept-loss --org ORG|--all --reason TEXT",
		Short: "Let a halted scribe go on without entries that are gone for good",
		Long: `Accept that the ledger lost entries that nobody has any more. Each org concerned
gets a gap entry with what its counters had moved and no entry says; verify
names it from then on. With --org it is refused where other orgs lost entries.`,
		Example: "  tallystick ledger accept-loss --all --reason \"disk of n1 died, see INC-17\"",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if all == (org != "") {
				return usagef("ledger accept-loss wants either --org or --all")
			}
			if e.reason == "" {
				return usagef("ledger accept-loss wants --reason: it stays on the ledger")
			}
			e.note("requests answer unavailable until the gap is booked")
			return e.admin(cmd, events.AdminAcceptLoss, "", orgBody(org), e.showLoss)
		},
	}
	c.Flags().StringVar(&org, "org", "", "only if `ORG` alone lost entries")
	c.Flags().BoolVar(&all, "all", false, "for every org concerned")
	return c
}

func (e *environment) showLoss(body []byte) error {
	a, err := events.ParseAcceptLossAnswer(body)
	if err != nil {
		return err
	}
	fmt.Fprintf(e.out, "accepted: the ledger goes on after entry %d; it had %d\n", a.TailStreamSeq, a.LostToStreamSeq)
	t := newTable(e.out, "ORG", "AFTER", "LIMITS", "IN MIRROR")
	for _, o := range a.Orgs {
		t.row(o.Org, o.AfterSeq, o.Limits, o.InMirror)
	}
	if err := t.flush(); err != nil {
		return err
	}
	if a.Hint != "" {
		fmt.Fprintln(e.out, a.Hint)
	}
	return nil
}
