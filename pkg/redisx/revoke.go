package redisx

import (
	"context"
	"slices"

	"tallystick/pkg/budget"
)

// RevokeArgs ends an agent, whose ancestors say where it counts.
type RevokeArgs struct {
	Agent   budget.Agent
	By, Why string // for the entry
}

type revokeDetail struct {
	By  string `json:"by,omitempty"`
	Why string `json:"why,omitempty"`
}

// Revoke ends an agent and its subtree from the next decision on:
// lua/revoke.lua. Revoking twice changes nothing.
func (s *Store) Revoke(ctx context.Context, a RevokeArgs) error {
	c := &revokeCall{store: s, args: a}
	s.one(ctx, c)
	return c.err
}

type revokeCall struct {
	store *Store
	args  RevokeArgs
	err   error
}

func (c *revokeCall) failed(err error) { c.err = err }

func (c *revokeCall) command() (*script, []string, []any) {
	a, k := c.args.Agent, c.store.keysOf(c.args.Agent.Org)
	at := Registration{Org: a.Org, Agent: a.ID, Ancestors: a.Ancestors}
	tree := k.tree(a.Org, at.root())
	children := tree
	if len(a.Ancestors) > 0 {
		children = k.children(a.Org, a.Ancestors[0])
	}
	return c.store.scripts["revoke"], []string{k.revoked, k.epoch, k.outbox, tree, children},
		[]any{a.ID, subjectLine(a.Org, a.ID, ""), marshalled(revokeDetail{c.args.By, c.args.Why})}
}

func (c *revokeCall) reply(v []string) (bool, error) {
	if v[0] != "revoked" && v[0] != "same" {
		return false, unexpected("revoke", v)
	}
	return false, nil
}

// Uncount takes the descendants of a revoked agent out of what is counted: no
// script lets a new one in below it. It is no money, and repeating it is
// harmless.
func (s *Store) Uncount(ctx context.Context, root string, agents []budget.Agent) error {
	for chunk := range slices.Chunk(agents, restoreChunk) {
		pipe := s.client.Pipeline()
		for _, a := range chunk {
			k := s.keysOf(a.Org)
			pipe.ZRem(ctx, k.tree(a.Org, root), a.ID)
			if len(a.Ancestors) > 0 {
				pipe.ZRem(ctx, k.children(a.Org, a.Ancestors[0]), a.ID)
			}
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return redisError(err)
		}
	}
	return nil
}
