package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"tallystick/pkg/events"
)

// admin asks one admin verb and shows the answer: as it came with -o json,
// else through show.
func (e *environment) admin(cmd *cobra.Command, verb, key string, req any, show func(body []byte) error) error {
	op, err := e.asOperator()
	if err != nil {
		return err
	}
	defer op.Close()
	ctx, cancel := context.WithTimeout(cmd.Context(), e.timeout)
	defer cancel()
	body, err := op.Do(ctx, verb, key, req)
	if err != nil {
		return err
	}
	if e.json() {
		return e.raw(body)
	}
	return show(body)
}

// fresh is an idempotency key for an operator who gave none.
func fresh() string { return "cli-" + uuid.NewString() }

func decode[T any](body []byte) (T, error) {
	var v T
	if err := json.Unmarshal(body, &v); err != nil {
		return v, fmt.Errorf("the answer is not what was expected: %w", err)
	}
	return v, nil
}

func (e *environment) orgCommand() *cobra.Command {
	var display string
	create := &cobra.Command{
		Use:     "create NAME",
		Short:   "Create an org",
		Example: "  tallystick org create acme --display 'Acme Inc.'",
		Args:    exactly("an org name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := map[string]any{"org": args[0]}
			if display != "" {
				req["display"] = display
			}
			return e.admin(cmd, "org_create", "", req, func([]byte) error {
				fmt.Fprintf(e.out, "org %s is there\n", args[0])
				e.note("next: tallystick pool create NAME --org %s --unit usd_microcents --cap N", args[0])
				return nil
			})
		},
	}
	create.Flags().StringVar(&display, "display", "", "name for people; free text")
	return group("org", "Tenants", "", create, e.orgSet(), e.orgShow())
}

func (e *environment) orgSet() *cobra.Command {
	var display string
	var depth, children, tree int64
	c := &cobra.Command{
		Use: "set NAME", Short: "Change an org's display name and its limits on agents; only what is named changes",
		Example: "  tallystick org set acme --depth-max 3 --children-max 500",
		Args:    exactly("an org name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := map[string]any{"org": args[0]}
			for flag, n := range map[string]int64{"depth-max": depth, "children-max": children, "tree-max": tree} {
				if set(cmd, flag) {
					req[strings.ReplaceAll(flag, "-", "_")] = n
				}
			}
			if set(cmd, "display") {
				req["display"] = display
			}
			if len(req) == 1 {
				return usagef("nothing to change: name --display, --depth-max, --children-max or --tree-max")
			}
			return e.admin(cmd, "org_set", "", req, e.showOrg)
		},
	}
	f := c.Flags()
	f.StringVar(&display, "display", "", "name for people; free text")
	f.Int64Var(&depth, "depth-max", 0, "greatest depth of an agent; one that an operator registers has 0")
	f.Int64Var(&children, "children-max", 0, "living children of one agent")
	f.Int64Var(&tree, "tree-max", 0, "living agents of one tree")
	return c
}

func (e *environment) orgShow() *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show an org and its limits on agents", Args: exactly("an org name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.admin(cmd, "org_show", "", map[string]any{"org": args[0]}, e.showOrg)
		},
	}
}

func (e *environment) showOrg(body []byte) error {
	o, err := decode[events.OrgAnswer](body)
	if err != nil {
		return err
	}
	t := newTable(e.out)
	t.row("org", o.Org)
	t.row("display", o.Display)
	t.row("created", o.CreatedAt)
	t.row("depth of agents", fmt.Sprint("at most ", o.DepthMax))
	t.row("living children", fmt.Sprint("at most ", o.ChildrenMax, " of one agent"))
	t.row("living agents", fmt.Sprint("at most ", o.TreeMax, " of one tree"))
	return t.flush()
}

// exactly wants one argument and says which.
func exactly(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usagef("%s wants exactly one argument: %s", cmd.CommandPath(), what)
		}
		return nil
	}
}

// oneOrFlag takes a value as the one argument or as a flag, but not both.
func oneOrFlag(value *string, flag string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) > 1:
			return usagef("%s wants at most one argument", cmd.CommandPath())
		case len(args) == 1 && *value != "":
			return usagef("give the %s once: as --%s or as the argument", flag, flag)
		case len(args) == 1:
			*value = args[0]
		case *value == "":
			return usagef("%s wants --%s", cmd.CommandPath(), flag)
		}
		return nil
	}
}
