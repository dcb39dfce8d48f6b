package redisx

import (
	"context"

	"tallystick/pkg/budget"
)

// RegisterArgs is a new agent, as the registrar has issued it.
type RegisterArgs struct {
	Agent            budget.Agent
	Name, Pool, Root string
	Depth            int
	By, Why          string
}

type registerDetail struct {
	Name   string `json:"name"`
	Parent string `json:"parent,omitempty"`
	Root   string `json:"root"`
	Depth  int    `json:"depth"`
	Pool   string `json:"pool"`
	By     string `json:"by,omitempty"`
	Why    string `json:"why,omitempty"`
}

// RegisterAgent writes agent_registered, or answers ErrRevoked where an
// ancestor is: lua/register.lua.
func (s *Store) RegisterAgent(ctx context.Context, a RegisterArgs) error {
	k := s.keysOf(a.Agent.Org)
	detail := registerDetail{Name: a.Name, Root: a.Root, Depth: a.Depth, Pool: a.Pool, By: a.By, Why: a.Why}
	if len(a.Agent.Ancestors) > 0 {
		detail.Parent = a.Agent.Ancestors[0]
	}
	args := []any{subjectLine(a.Agent.Org, a.Agent.ID, ""), marshalled(detail)}
	for _, ancestor := range a.Agent.Ancestors {
		args = append(args, ancestor)
	}
	return s.administer(ctx, "register", []string{k.revoked, k.epoch, k.outbox}, args)
}

type revokeDetail struct {
	By  string `json:"by"`
	Why string `json:"why,omitempty"`
}

// Revoke ends an agent and its subtree from the next decision on:
// lua/revoke.lua. Revoking twice changes nothing.
func (s *Store) Revoke(ctx context.Context, a budget.Agent, by, why string) error {
	k := s.keysOf(a.Org)
	detail := marshalled(revokeDetail{by, why})
	return s.administer(ctx, "revoke", []string{k.revoked, k.epoch, k.outbox},
		[]any{a.ID, subjectLine(a.Org, a.ID, ""), detail})
}

func (s *Store) administer(ctx context.Context, name string, keys []string, args []any) error {
	c := &adminCall{script: s.scripts[name], keys: keys, args: args}
	s.one(ctx, c)
	return c.err
}

// adminCall runs a script whose only answers are a word.
type adminCall struct {
	script *script
	keys   []string
	args   []any
	err    error
}

func (c *adminCall) failed(err error)                    { c.err = err }
func (c *adminCall) command() (*script, []string, []any) { return c.script, c.keys, c.args }

func (c *adminCall) reply(v []string) (bool, error) {
	if v[0] == "revoked" && c.script.name == "register" {
		return false, ErrRevoked
	}
	return false, nil
}
