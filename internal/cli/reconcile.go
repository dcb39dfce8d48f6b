package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"tallystick/pkg/events"
)

// report is the contract's answer of reconcile.
type report struct {
	Verdict string `json:"verdict"`
	Orgs    []struct {
		Org   string `json:"org"`
		Drift []struct {
			Pool     string `json:"pool"`
			Unit     string `json:"unit"`
			Counter  string `json:"counter"`
			Expected int64  `json:"expected"`
			Actual   int64  `json:"actual"`
			Drift    int64  `json:"drift"`
		} `json:"drift"`
		Explained []struct {
			Cause   string           `json:"cause"`
			Count   int64            `json:"count"`
			Amounts map[string]int64 `json:"amounts"`
		} `json:"explained"`
	} `json:"orgs"`
}

func (e *environment) reconcileCommand() *cobra.Command {
	var org string
	var once bool
	c := &cobra.Command{
		Use:     "reconcile --once [--org ORG]",
		Short:   "Compare counters with the ledger at a consistent cut; exit 8 on drift",
		Example: "  tallystick reconcile --once -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !once {
				return usagef("reconcile wants --once: the reconciler itself runs all the time")
			}
			op, err := e.asOperator()
			if err != nil {
				return err
			}
			defer op.Close()
			ctx, cancel := context.WithTimeout(cmd.Context(), e.timeout)
			defer cancel()
			body, err := op.Do(ctx, events.AdminReconcile, "", orgBody(org))
			if err != nil {
				return err
			}
			r, err := decode[report](body)
			if err != nil {
				return err
			}
			if e.json() {
				err = e.raw(body)
			} else {
				err = e.showReport(r)
			}
			if err == nil && r.Verdict != "ok" {
				return &exitError{code: events.ExitDrift}
			}
			return err
		},
	}
	c.Flags().StringVar(&org, "org", "", "only this `ORG`")
	c.Flags().BoolVar(&once, "once", false, "compare once and report")
	return c
}

func orgBody(org string) map[string]any {
	if org == "" {
		return map[string]any{}
	}
	return map[string]any{"org": org}
}

func (e *environment) showReport(r report) error {
	t := newTable(e.out, "ORG", "POOL", "UNIT", "COUNTER", "EXPECTED", "ACTUAL", "DRIFT")
	for _, o := range r.Orgs {
		if len(o.Drift) == 0 {
			t.row(o.Org, "all", "all", "all", "-", "-", 0)
		}
		for _, d := range o.Drift {
			t.row(o.Org, d.Pool, d.Unit, d.Counter, amount(d.Unit, d.Expected), amount(d.Unit, d.Actual), amount(d.Unit, d.Drift))
		}
	}
	if err := t.flush(); err != nil {
		return err
	}
	for _, o := range r.Orgs {
		for _, x := range o.Explained {
			fmt.Fprintf(e.out, "explained, org %s: %s, %d times, %s\n", o.Org, x.Cause, x.Count, amounts(x.Amounts))
		}
	}
	fmt.Fprintf(e.out, "verdict: %s\n", r.Verdict)
	return nil
}

func (e *environment) rebuildCommand() *cobra.Command {
	var org string
	c := &cobra.Command{
		Use:   "rebuild [--org ORG]",
		Short: "Rebuild Redis from the ledger: every org of the org's partition, or all",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			e.note("rebuilding; requests to the fenced partitions answer unavailable until it is done")
			return e.admin(cmd, events.AdminRebuild, "", orgBody(org), func(body []byte) error {
				r, err := decode[struct {
					Partitions []int
					Entries    int64
					Orgs       []string
				}](body)
				if err != nil {
					return err
				}
				fmt.Fprintf(e.out, "rebuilt %d partition(s) with %d org(s) from %d entries: %s\n", len(r.Partitions), len(r.Orgs), r.Entries, strings.Join(r.Orgs, ", "))
				return nil
			})
		},
	}
	c.Flags().StringVar(&org, "org", "", "only this `ORG`'s partition")
	return c
}
