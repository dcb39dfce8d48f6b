package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"tallystick/pkg/events"
)

func (e *environment) agentCommand() *cobra.Command {
	return group("agent", "Identities of agents",
		`  tallystick agent register --org acme --name bot --pool research
  TALLY_TOKEN=… tallystick agent register --name helper --grant usd_microcents=5000000 --ttl 1h   # as an agent: a child of its own
  tallystick agent tree --org acme
  tallystick agent revoke --org acme --agent 0199… --holds release`,
		e.agentRegister(), e.agentList(), e.agentTree(), e.agentShow(), e.agentRevoke(), e.agentRotate())
}

type agentRow struct {
	events.AgentRow
	Token string `json:"token"`
}

// state is a word for whether an agent may still take money.
func (a agentRow) state(now time.Time) string {
	ends, err := time.Parse(time.RFC3339, a.ExpiresAt)
	switch {
	case err == nil && !now.Before(ends):
		return "expired"
	case a.Revoked:
		return "revoked"
	}
	return "active"
}

// showAgent shows a fresh token: the only time that anybody sees it.
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

type registerFlags struct {
	org, name, pool, parent, ttl, purpose, key string
	grant                                      []string
}

func (e *environment) agentRegister() *cobra.Command {
	var r registerFlags
	c := &cobra.Command{
		Use: "register --name NAME (--org ORG --pool POOL | as an agent)", Short: "Register an agent and print its token once",
		Example: `  tallystick agent register --org acme --name bot --pool research -o json > bot.json
  TALLY_TOKEN=… tallystick agent register --name helper --grant tokens=1000   # a child with a pool of its own`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if r.key == "" {
				r.key = fresh()
			}
			if r.org == "" {
				return e.registerChild(cmd, &r)
			}
			if len(r.grant) > 0 || r.purpose != "" {
				return usagef("--grant and --purpose are for agents that register a child: leave out --org")
			}
			if r.pool == "" {
				return usagef("agent register --org wants --pool")
			}
			req := map[string]any{"org": r.org, "name": r.name, "pool": r.pool}
			if r.parent != "" {
				req["parent"] = r.parent
			}
			if err := ttlInto(req, r.ttl); err != nil {
				return err
			}
			return e.admin(cmd, events.AdminAgentRegister, r.key, req, e.showAgent)
		},
	}
	f := c.Flags()
	f.StringVar(&r.org, "org", "", "`ORG`, as operator; without it the caller is an agent, and the parent")
	f.StringVar(&r.name, "name", "", "`NAME` for people")
	f.StringVar(&r.pool, "pool", "", "`POOL` that the agent spends from")
	f.StringVar(&r.parent, "parent", "", "parent `AGENT`: revoking it revokes this one")
	f.StringVar(&r.ttl, "ttl", "", "how long the identity lives, such as 24h; default: as long as its parent")
	f.StringArrayVar(&r.grant, "grant", nil, "`UNIT=N`: a pool of its own below the parent's, with this cap; default: the parent's pool")
	f.StringVar(&r.purpose, "purpose", "", "free text for the ledger")
	f.StringVar(&r.key, "key", "", "idempotency `KEY`; a repeat gives the same agent a fresh token")
	require(c, "name")
	return c
}

// needsAgent refuses what neither an operator nor an agent can have meant.
func (e *environment) needsAgent(cmd *cobra.Command) error {
	token, err := e.givenToken()
	if err == nil && token == "" {
		err = usagef("%s wants --org as operator, or the token of an agent", cmd.CommandPath())
	}
	return err
}

func ttlInto(req map[string]any, ttl string) error {
	if ttl == "" {
		return nil
	}
	ms, err := parseMillis("ttl", ttl)
	req["ttl_ms"] = ms
	return err
}

// registerChild registers a child of the agent whose token is used.
func (e *environment) registerChild(cmd *cobra.Command, r *registerFlags) error {
	if err := e.needsAgent(cmd); err != nil {
		return err
	}
	if r.pool != "" || r.parent != "" {
		return usagef("an agent cannot say --pool or --parent: these follow from who it is; operators use --org")
	}
	body := map[string]any{"name": r.name}
	if r.purpose != "" {
		body["purpose"] = r.purpose
	}
	if len(r.grant) > 0 {
		caps, err := parseAmounts("grant", r.grant)
		if err != nil {
			return err
		}
		body["budget"] = map[string]any{"mode": events.BudgetGranted, "caps": caps}
	}
	if err := ttlInto(body, r.ttl); err != nil {
		return err
	}
	return e.send(cmd, request{verb: events.VerbRegister, key: r.key, body: body, show: e.showAgent})
}

// agents reads an org's agents, page by page.
func (e *environment) agents(cmd *cobra.Command, org, root string) (all []agentRow, err error) {
	op, err := e.asOperator()
	if err != nil {
		return nil, err
	}
	defer op.Close()
	for cursor := ""; ; {
		req := map[string]any{"org": org}
		if root != "" {
			req["root"] = root
		}
		if cursor != "" {
			req["cursor"] = cursor
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), e.timeout)
		body, err := op.Do(ctx, events.AdminAgentList, "", req)
		cancel()
		if err != nil {
			return nil, err
		}
		page, err := decode[struct {
			Agents []agentRow
			Cursor string
		}](body)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Agents...)
		if cursor = page.Cursor; cursor == "" {
			return all, nil
		}
	}
}

func (e *environment) agentList() *cobra.Command {
	var org string
	c := &cobra.Command{
		Use: "list --org ORG", Short: "List an org's agents", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			agents, err := e.agents(cmd, org, "")
			if err != nil {
				return err
			}
			if e.json() {
				var list events.AgentListAnswer
				for _, a := range agents {
					list.Agents = append(list.Agents, a.AgentRow)
				}
				return e.raw(list.Append(nil))
			}
			t := newTable(e.out, "AGENT", "NAME", "POOL", "DEPTH", "PARENT", "STATE", "TOKEN", "CREATED")
			for _, a := range agents {
				t.row(a.Agent, a.Name, a.Pool, a.Depth, a.Parent, a.state(time.Now()), a.TokenHint, a.CreatedAt)
			}
			return t.flush()
		},
	}
	c.Flags().StringVar(&org, "org", "", "`ORG`")
	require(c, "org")
	return c
}

func (e *environment) agentShow() *cobra.Command {
	var org, agent string
	c := &cobra.Command{
		Use: "show --org ORG --agent AGENT", Short: "Show one agent: where it stands, and how many live below it",
		Args: oneOrFlag(&agent, "agent"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return e.admin(cmd, events.AdminAgentShow, "", map[string]any{"org": org, "agent": agent}, e.showStanding)
		},
	}
	f := c.Flags()
	f.StringVar(&org, "org", "", "`ORG`")
	f.StringVar(&agent, "agent", "", "`AGENT` id")
	require(c, "org")
	return c
}

func (e *environment) showStanding(body []byte) error {
	var a events.AgentShowAnswer
	if err := json.Unmarshal(body, &a); err != nil {
		return fmt.Errorf("the answer is not what was expected: %w", err)
	}
	t := newTable(e.out)
	t.row("agent", a.Agent)
	t.row("name", a.Name)
	t.row("state", agentRow{AgentRow: a.AgentRow}.state(time.Now()))
	t.row("pool", a.Pool)
	t.row("purpose", a.Purpose)
	t.row("depth", a.Depth)
	t.row("parent", a.Parent)
	t.row("root", a.Root)
	t.row("created", a.CreatedAt)
	t.row("ends", a.ExpiresAt)
	t.row("living children", a.LivingChildren)
	t.row("living in its tree", a.LivingTree)
	t.row("token", a.TokenHint)
	t.row("old token until", a.OldTokenUntil)
	return t.flush()
}

func (e *environment) agentRevoke() *cobra.Command {
	var org, agent, holds string
	c := &cobra.Command{
		Use: "revoke (--org ORG | as an agent) --agent AGENT", Short: "Revoke an agent and its whole subtree, from the next decision on",
		Args: oneOrFlag(&agent, "agent"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			req := map[string]any{"agent": agent}
			if holds != "" {
				if holds != "keep" && holds != "release" {
					return usagef("--holds %q: want keep or release", holds)
				}
				req["holds"] = holds
			}
			if org == "" {
				if err := e.needsAgent(cmd); err != nil {
					return err
				}
				return e.send(cmd, request{verb: events.VerbRevoke, key: fresh(), body: req, show: e.showRevoked})
			}
			req["org"] = org
			return e.admin(cmd, events.AdminAgentRevoke, fresh(), req, e.showRevoked)
		},
	}
	f := c.Flags()
	f.StringVar(&org, "org", "", "`ORG`, as operator; without it the caller is an agent, and ends one of its own subtree")
	f.StringVar(&agent, "agent", "", "`AGENT` id")
	f.StringVar(&holds, "holds", "", "keep (default) or release what it holds")
	return c
}

func (e *environment) showRevoked(body []byte) error {
	r, err := decode[events.RevokeAnswer](body)
	if err != nil {
		return err
	}
	fmt.Fprintf(e.out, "revoked %d agent(s)\n", r.Agents)
	return nil
}

func (e *environment) agentRotate() *cobra.Command {
	var org, agent, overlap string
	c := &cobra.Command{
		Use: "rotate --org ORG --agent AGENT", Short: "Replace an agent's token; the old one ends, at once or after --overlap",
		Example: "  tallystick agent rotate --org acme --agent 0199… --overlap 1h",
		Args:    oneOrFlag(&agent, "agent"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			req := map[string]any{"org": org, "agent": agent}
			if overlap != "" {
				ms, err := parseMillis("overlap", overlap)
				if err != nil {
					return err
				}
				req["overlap_ms"] = ms
			}
			return e.admin(cmd, events.AdminAgentRotate, "", req, e.showAgent)
		},
	}
	f := c.Flags()
	f.StringVar(&org, "org", "", "`ORG`")
	f.StringVar(&agent, "agent", "", "`AGENT` id")
	f.StringVar(&overlap, "overlap", "", "how long the old token still works, such as 1h; default: it ends at once")
	require(c, "org")
	return c
}
