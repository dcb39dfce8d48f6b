package redisx

import "context"

// AdministerArgs is what an operator or admin has done, with who and why.
// Subject is what was acted on.
type AdministerArgs struct {
	Org, Action, By, Why, Subject string
}

type administerDetail struct {
	Action  string `json:"action"`
	By      string `json:"by"`
	Why     string `json:"why,omitempty"`
	Subject string `json:"subject"`
}

// Administer writes administered, once for each call: lua/administer.lua.
func (s *Store) Administer(ctx context.Context, a AdministerArgs) error {
	c := &administerCall{store: s, args: a}
	s.one(ctx, c)
	return c.err
}

type administerCall struct {
	store *Store
	args  AdministerArgs
	err   error
}

func (c *administerCall) failed(err error) { c.err = err }

func (c *administerCall) command() (*script, []string, []any) {
	a, k := &c.args, c.store.keysOf(c.args.Org)
	return c.store.scripts["administer"], []string{k.revoked, k.epoch, k.outbox},
		[]any{subjectLine(a.Org, "", ""), marshalled(administerDetail{a.Action, a.By, a.Why, a.Subject})}
}

func (c *administerCall) reply(v []string) (bool, error) {
	if v[0] != "administered" {
		return false, unexpected("administer", v)
	}
	return false, nil
}
