package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"tallystick/pkg/events"
)

func (e *environment) principalCommand() *cobra.Command {
	return group("principal", "Those on whose behalf agents spend: people, teams, customers",
		`  tallystick principal create customer-17 --org acme --manager 0199…
  tallystick principal set customer-17 --org acme --add-manager 0199… --remove-manager 019a…
  tallystick principal show customer-17 --org acme`,
		e.principalCreate(), e.principalSet(), e.principalList(), e.principalShow())
}

func (e *environment) principalCreate() *cobra.Command {
	var org, display string
	var managers []string
	c := &cobra.Command{
		Use: "create NAME --org ORG [--manager AGENT...]", Short: "Create a principal with the agents that manage it",
		Args: exactly("a principal's name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := events.PrincipalCreate{Org: org, Principal: args[0], Managers: managers}
			if set(cmd, "display") {
				req.Display = &display
			}
			return e.admin(cmd, events.AdminPrincipalCreate, "", req, e.showPrincipal)
		},
	}
	f := c.Flags()
	f.StringVar(&org, "org", "", "`ORG`")
	f.StringVar(&display, "display", "", "name for people; free text")
	f.StringArrayVar(&managers, "manager", nil, "`AGENT` that may spend on its behalf, once per agent")
	require(c, "org")
	return c
}

func (e *environment) principalSet() *cobra.Command {
	var org, display string
	var add, remove []string
	c := &cobra.Command{
		Use: "set NAME --org ORG [flags]", Short: "Change who manages a principal; only what is named changes",
		Args: exactly("a principal's name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := events.PrincipalSet{Org: org, Principal: args[0], Add: add, Remove: remove}
			if set(cmd, "display") {
				req.Display = &display
			} else if len(add)+len(remove) == 0 {
				return usagef("nothing to change: give --add-manager, --remove-manager or --display")
			}
			return e.admin(cmd, events.AdminPrincipalSet, "", req, e.showPrincipal)
		},
	}
	f := c.Flags()
	f.StringVar(&org, "org", "", "`ORG`")
	f.StringVar(&display, "display", "", "name for people; free text")
	f.StringArrayVar(&add, "add-manager", nil, "`AGENT` that may spend on its behalf from now on, once per agent")
	f.StringArrayVar(&remove, "remove-manager", nil, "`AGENT` that may no more, once per agent")
	require(c, "org")
	return c
}

func (e *environment) principalList() *cobra.Command {
	var org string
	c := &cobra.Command{
		Use: "list --org ORG", Short: "List an org's principals", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return e.admin(cmd, events.AdminPrincipalList, "", events.PrincipalList{Org: org}, func(body []byte) error {
				list, err := events.ParsePrincipalListAnswer(body)
				if err != nil {
					return err
				}
				return e.principals(list.Principals...)
			})
		},
	}
	c.Flags().StringVar(&org, "org", "", "`ORG`")
	require(c, "org")
	return c
}

func (e *environment) showPrincipal(body []byte) error {
	a, err := events.ParsePrincipalAnswer(body)
	if err != nil {
		return err
	}
	return e.principals(a.Principal)
}

func (e *environment) principals(all ...events.Principal) error {
	t := newTable(e.out, "PRINCIPAL", "DISPLAY", "MANAGERS", "REV", "CREATED")
	for _, p := range all {
		t.row(p.Principal, p.Display, strings.Join(p.Managers, " "), p.Rev, p.CreatedAt)
	}
	return t.flush()
}

// principalView is the registrar's record with the reconciler's figures.
type principalView struct {
	Principal events.Principal      `json:"principal"`
	AsOfSeq   uint64                `json:"as_of_seq"`
	Balance   []events.PrincipalRow `json:"balance"`
}

func (e *environment) principalShow() *cobra.Command {
	var org string
	c := &cobra.Command{
		Use: "show NAME --org ORG", Short: "Show a principal and what the ledger says was done on its behalf",
		Args: exactly("a principal's name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := e.principalView(cmd, events.PrincipalName{Org: org, Principal: args[0]})
			if err != nil {
				return err
			}
			if e.json() {
				return e.document(v)
			}
			if err := e.principals(v.Principal); err != nil {
				return err
			}
			t := newTable(e.out, "POOL", "UNIT", "PERIOD", "HELD", "SPENT", "WITHHELD")
			for _, r := range v.Balance {
				t.row(r.Pool, r.Unit, r.Period, amount(r.Unit, r.Held), amount(r.Unit, r.Spent), amount(r.Unit, r.Withheld))
			}
			e.note("as of ledger sequence %d", v.AsOfSeq)
			return t.flush()
		},
	}
	c.Flags().StringVar(&org, "org", "", "`ORG`")
	require(c, "org")
	return c
}

func (e *environment) principalView(cmd *cobra.Command, q events.PrincipalName) (principalView, error) {
	var v principalView
	op, err := e.asOperator()
	if err != nil {
		return v, err
	}
	defer op.Close()
	ctx, cancel := context.WithTimeout(cmd.Context(), e.timeout)
	defer cancel()
	record, err := op.Do(ctx, events.AdminPrincipalShow, "", q)
	if err != nil {
		return v, err
	}
	shown, err := events.ParsePrincipalAnswer(record)
	if err != nil {
		return v, err
	}
	figures, err := op.Do(ctx, events.AdminPrincipalBalance, "", q)
	if err != nil {
		return v, err
	}
	b, err := events.ParsePrincipalBalanceAnswer(figures)
	return principalView{shown.Principal, b.AsOfSeq, nonNil(b.Balance)}, err
}
