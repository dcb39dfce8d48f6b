package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tallystick/pkg/events"
)

// treeNode is one agent of a tree, with the figures of the pool it draws on.
type treeNode struct {
	Agent    string             `json:"agent"`
	Name     string             `json:"name"`
	State    string             `json:"state"`
	Pool     string             `json:"pool"`
	Shared   bool               `json:"shared"` // draws on its parent's pool
	Limits   []events.PoolLimit `json:"limits,omitempty"`
	Children []*treeNode        `json:"children,omitempty"`
}

func (e *environment) agentTree() *cobra.Command {
	var org, agent string
	c := &cobra.Command{
		Use: "tree --org ORG [AGENT]", Short: "Draw who registered whom, with held, spent and cap of each pool",
		Example: "  tallystick agent tree --org acme",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				agent = args[0]
			}
			roots, err := e.forest(cmd, org, agent)
			if err != nil {
				return err
			}
			if e.json() {
				body, err := json.Marshal(map[string]any{"org": org, "agents": roots})
				if err != nil {
					return err
				}
				return e.raw(body)
			}
			t := newTable(e.out, "AGENT", "ID", "STATE", "POOL", "UNIT", "HELD", "SPENT", "CAP")
			for _, root := range roots {
				root.draw(t, "", "")
			}
			return t.flush()
		},
	}
	f := c.Flags()
	f.StringVar(&org, "org", "", "`ORG`")
	f.StringVar(&agent, "agent", "", "only the subtree of this `AGENT`")
	require(c, "org")
	return c
}

// forest reads an org's agents and pools and joins them.
func (e *environment) forest(cmd *cobra.Command, org, top string) ([]*treeNode, error) {
	agents, err := e.agents(cmd, org, "")
	if err != nil {
		return nil, err
	}
	op, err := e.asOperator()
	if err != nil {
		return nil, err
	}
	defer op.Close()
	ctx, cancel := context.WithTimeout(cmd.Context(), e.timeout)
	defer cancel()
	body, err := op.Do(ctx, events.AdminPoolShow, "", map[string]any{"org": org})
	if err != nil {
		return nil, err
	}
	shown, err := events.ParsePoolShowAnswer(body)
	if err != nil {
		return nil, err
	}
	return join(agents, shown.Pools, top)
}

// join hangs each agent under its parent. An agent's parent is older than it
// is, so one pass finds every parent.
func join(agents []agentRow, pools []events.Pool, top string) ([]*treeNode, error) {
	limits := map[string][]events.PoolLimit{}
	for _, p := range pools {
		limits[p.Pool] = p.Limits
	}
	var roots []*treeNode
	nodes := map[string]*treeNode{}
	for _, a := range agents {
		n := &treeNode{Agent: a.Agent, Name: a.Name, State: a.state(time.Now()), Pool: a.Pool}
		nodes[a.Agent] = n
		parent := nodes[a.Parent]
		if parent == nil {
			n.Limits, roots = limits[a.Pool], append(roots, n)
			continue
		}
		parent.Children = append(parent.Children, n)
		if n.Shared = parent.Pool == n.Pool; !n.Shared {
			n.Limits = limits[a.Pool]
		}
	}
	if top == "" {
		return roots, nil
	}
	if nodes[top] == nil {
		e := events.NotFound("agent")
		e.Field = "agent"
		return nil, e
	}
	n := nodes[top]
	n.Shared, n.Limits = false, limits[n.Pool]
	return []*treeNode{n}, nil
}

// draw writes a node and what hangs below it: one line, and one more for each
// further limit.
func (n *treeNode) draw(t *table, stem, below string) {
	pool := n.Pool
	if n.Shared {
		pool = "its parent's"
	}
	first := []any{stem + n.Name, n.Agent, n.State, pool}
	if len(n.Limits) == 0 {
		t.row(append(first, "", "", "", "")...)
	}
	slices.SortFunc(n.Limits, func(a, b events.PoolLimit) int { return strings.Compare(a.Unit, b.Unit) })
	for i, l := range n.Limits {
		if i > 0 {
			first = []any{below, " ", " ", " "}
		}
		figures := []any{l.Unit, amount(l.Unit, l.Held), amount(l.Unit, l.Spent), optional(l.Unit, l.Cap)}
		if l.Period != "none" {
			figures[0] = fmt.Sprint(l.Unit, "/", l.Period)
		}
		t.row(append(first, figures...)...)
	}
	for i, child := range n.Children {
		if i == len(n.Children)-1 {
			child.draw(t, below+"└─ ", below+"   ")
		} else {
			child.draw(t, below+"├─ ", below+"│  ")
		}
	}
}
