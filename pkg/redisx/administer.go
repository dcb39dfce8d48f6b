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
	k := s.keysOf(a.Org)
	return s.administer(ctx, "administer", []string{k.revoked, k.epoch, k.outbox},
		[]any{subjectLine(a.Org, "", ""), marshalled(administerDetail{a.Action, a.By, a.Why, a.Subject})})
}
