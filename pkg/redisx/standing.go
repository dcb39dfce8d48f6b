package redisx

import (
	"context"
	"strconv"

	"tallystick/pkg/budget"
)

// Standing is what Redis knows of an agent: whether it or an ancestor has
// ended, and how many live below it and in its whole tree.
type Standing struct {
	Revoked        bool
	Children, Tree int64
}

// Standing reads an agent's standing: lua/standing.lua.
func (s *Store) Standing(ctx context.Context, a budget.Agent) (Standing, error) {
	c := &standingCall{store: s, agent: a}
	s.one(ctx, c)
	return c.result, c.err
}

type standingCall struct {
	store  *Store
	agent  budget.Agent
	result Standing
	err    error
}

func (c *standingCall) failed(err error) { c.err = err }

func (c *standingCall) command() (*script, []string, []any) {
	a, k := c.agent, c.store.keysOf(c.agent.Org)
	at := Registration{Agent: a.ID, Ancestors: a.Ancestors}
	args := make([]any, 0, 1+len(a.Ancestors))
	args = append(args, a.ID)
	for _, ancestor := range a.Ancestors {
		args = append(args, ancestor)
	}
	return c.store.scripts["standing"], []string{k.revoked, k.epoch, k.children(a.Org, a.ID), k.tree(a.Org, at.root())}, args
}

func (c *standingCall) reply(v []string) (again bool, err error) {
	if len(v) != 4 || v[0] != "standing" {
		return false, unexpected("standing", v)
	}
	c.result.Revoked = v[1] == "1"
	if c.result.Children, err = strconv.ParseInt(v[2], 10, 64); err != nil {
		return false, err
	}
	c.result.Tree, err = strconv.ParseInt(v[3], 10, 64)
	return false, err
}
