package settler

import (
	"context"
	"encoding/json"
	"errors"

	"tallystick/internal/worker"
	"tallystick/pkg/events"
)

// AdminVerbs are the operators' verbs: an agent's settle and release, with the
// org and the agent named in the body.
func (h *Handler) AdminVerbs() map[string]worker.AdminFunc {
	return map[string]worker.AdminFunc{
		events.AdminSettle: func(ctx context.Context, r worker.AdminRequest) ([]byte, error) {
			q, e := events.DecodeOperatorSettle(r.Body)
			if e != nil {
				return nil, e
			}
			return h.operate(ctx, r, q.Org, q.Agent, events.VerbSettle, q.Settle)
		},
		events.AdminRelease: func(ctx context.Context, r worker.AdminRequest) ([]byte, error) {
			q, e := events.DecodeOperatorRelease(r.Body)
			if e != nil {
				return nil, e
			}
			return h.operate(ctx, r, q.Org, q.Agent, events.VerbRelease, q.Release)
		},
	}
}

// operate runs an operator's request as the agent's own verb, through the
// operators' door.
func (h *Handler) operate(ctx context.Context, r worker.AdminRequest, org, agent, verb string, q any) ([]byte, error) {
	body, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	a := h.Handle(ctx, []*worker.Request{{
		Door: worker.Operator, Org: org, Agent: agent, Verb: verb, Key: r.Key, Trace: r.Trace, Body: body, By: r.By, Why: r.Why,
	}})[0]
	if a.Code == "" {
		return a.Body, nil
	}
	if e := events.ParseError(a.Body); e != nil {
		return nil, e
	}
	return nil, errors.New(a.Message)
}
