package cli

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
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
	return group("org", "Tenants", "", create)
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

func (e *environment) agentCommand() *cobra.Command {
	return group("agent", "Identities of agents",
		"  tallystick agent register --org acme --name bot --pool research\n  tallystick agent revoke --org acme --agent 0199… --holds release",
		e.agentRegister(), e.agentList(), e.agentRevoke(), e.agentRotate())
}

type agentRow struct {
	Agent     string `json:"agent"`
	Org       string `json:"org"`
	Name      string `json:"name"`
	Token     string `json:"token"`
	Pool      string `json:"pool"`
	Parent    string `json:"parent"`
	Depth     int    `json:"depth"`
	Revoked   bool   `json:"revoked"`
	CreatedAt string `json:"created_at"`
	TokenHint string `json:"token_hint"`
}

// credentials shows a fresh token: the only time that anybody sees it.
func (e *environment) showAgent(body []byte) error {
	a, err := decode[agentRow](body)
	if err != nil {
		return err
	}
	t := newTable(e.out)
	t.row("agent", a.Agent)
	t.row("org", a.Org)
	t.row("name", a.Name)
	t.row("pool", a.Pool)
	t.row("token", a.Token)
	if err := t.flush(); err != nil {
		return err
	}
	e.note("The token is shown this once: only its hash is stored.")
	return nil
}

func (e *environment) agentRegister() *cobra.Command {
	var org, name, pool, parent, ttl string
	c := &cobra.Command{
		Use: "register --org ORG --name NAME --pool POOL", Short: "Register an agent and print its token once",
		Example: "  tallystick agent register --org acme --name bot --pool research -o json > bot.json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			req := map[string]any{"org": org, "name": name, "pool": pool}
			if parent != "" {
				req["parent"] = parent
			}
			if ttl != "" {
				ms, err := parseMillis("ttl", ttl)
				if err != nil {
					return err
				}
				req["ttl_ms"] = ms
			}
			return e.admin(cmd, "agent_register", "", req, e.showAgent)
		},
	}
	f := c.Flags()
	f.StringVar(&org, "org", "", "`ORG`")
	f.StringVar(&name, "name", "", "`NAME` for people")
	f.StringVar(&pool, "pool", "", "`POOL` that the agent spends from")
	f.StringVar(&parent, "parent", "", "parent `AGENT`: revoking it revokes this one")
	f.StringVar(&ttl, "ttl", "", "how long the identity lives, such as 24h; default: until revoked")
	require(c, "org", "name", "pool")
	return c
}

func (e *environment) agentList() *cobra.Command {
	var org string
	c := &cobra.Command{
		Use: "list --org ORG", Short: "List an org's agents", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return e.admin(cmd, "agent_list", "", map[string]any{"org": org}, func(body []byte) error {
				list, err := decode[struct{ Agents []agentRow }](body)
				if err != nil {
					return err
				}
				t := newTable(e.out, "AGENT", "NAME", "POOL", "DEPTH", "PARENT", "STATE", "TOKEN", "CREATED")
				for _, a := range list.Agents {
					state := "active"
					if a.Revoked {
						state = "revoked"
					}
					t.row(a.Agent, a.Name, a.Pool, a.Depth, a.Parent, state, a.TokenHint, a.CreatedAt)
				}
				return t.flush()
			})
		},
	}
	c.Flags().StringVar(&org, "org", "", "`ORG`")
	require(c, "org")
	return c
}

func (e *environment) agentRevoke() *cobra.Command {
	var org, agent, holds string
	c := &cobra.Command{
		Use: "revoke --org ORG --agent AGENT", Short: "Revoke an agent and its whole subtree, from the next decision on",
		Args: oneOrFlag(&agent, "agent"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			req := map[string]any{"org": org, "agent": agent}
			if holds != "" {
				if holds != "keep" && holds != "release" {
					return usagef("--holds %q: want keep or release", holds)
				}
				req["holds"] = holds
			}
			return e.admin(cmd, "agent_revoke", fresh(), req, func(body []byte) error {
				r, err := decode[struct{ Agents int }](body)
				if err != nil {
					return err
				}
				fmt.Fprintf(e.out, "revoked %d agent(s)\n", r.Agents)
				return nil
			})
		},
	}
	f := c.Flags()
	f.StringVar(&org, "org", "", "`ORG`")
	f.StringVar(&agent, "agent", "", "`AGENT` id")
	f.StringVar(&holds, "holds", "", "keep (default) or release what it holds")
	require(c, "org")
	return c
}

func (e *environment) agentRotate() *cobra.Command {
	var org, agent string
	c := &cobra.Command{
		Use: "rotate --org ORG --agent AGENT", Short: "Replace an agent's token; the old one ends",
		Args: oneOrFlag(&agent, "agent"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return e.admin(cmd, "agent_rotate", "", map[string]any{"org": org, "agent": agent}, e.showAgent)
		},
	}
	f := c.Flags()
	f.StringVar(&org, "org", "", "`ORG`")
	f.StringVar(&agent, "agent", "", "`AGENT` id")
	require(c, "org")
	return c
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
