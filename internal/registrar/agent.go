package registrar

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"tallystick/internal/registry"
	"tallystick/internal/topology"
	"tallystick/internal/worker"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
	"tallystick/pkg/redisx"
)

func (r *Registrar) agentRegister(ctx context.Context, req worker.AdminRequest) ([]byte, error) {
	q, refused := events.DecodeAgentRegister(req.Body)
	if refused != nil {
		return nil, refused
	}
	n := newborn{
		org: q.Org, name: q.Name, pool: q.Pool, by: req.By, why: req.Why,
		fingerprint: fmt.Sprintf("%x", sha256.Sum256(req.Body)),
	}
	if q.TTLMS != nil {
		n.ttl = time.Duration(*q.TTLMS) * time.Millisecond
	}
	if req.Key != "" {
		if e := events.CheckKey(req.Key); e != nil {
			return nil, e
		}
		n.execution = redisx.ExecutionID(q.Org, req.By, events.VerbRegister, req.Key)
	}
	if q.Parent != nil {
		parent, _, err := r.cfg.Directory.Agent(ctx, q.Org, *q.Parent)
		if err != nil {
			return nil, answerable(notFound(err, "agent", "parent"))
		}
		n.parent = &parent
	}
	a, token, _, err := r.register(ctx, n)
	if errors.Is(err, redisx.ErrRevoked) {
		return nil, events.InvalidArgument("parent", "the parent or one of its ancestors is revoked", "register under a live agent")
	}
	if err != nil {
		return nil, answerable(err)
	}
	return events.AgentRegisterAnswer{
		Agent: a.ID, Org: a.Org, Name: a.Name, Token: token, Pool: a.Pool, Parent: a.Parent, Root: a.Root, Depth: a.Depth,
	}.Append(nil), nil
}

func identity(a registry.Agent) budget.Agent {
	return budget.Agent{Org: a.Org, ID: a.ID, Ancestors: a.Ancestors}
}

func (r *Registrar) agentList(ctx context.Context, req worker.AdminRequest) ([]byte, error) {
	q, refused := events.DecodeAgentList(req.Body)
	if refused != nil {
		return nil, refused
	}
	if err := r.needOrg(ctx, q.Org); err != nil {
		return nil, answerable(err)
	}
	agents, err := r.cfg.Directory.Agents(ctx, q.Org)
	if err != nil {
		return nil, answerable(err)
	}
	revoked := map[string]bool{}
	for _, a := range agents {
		revoked[a.ID] = !a.RevokedAt.IsZero()
	}
	var answer events.AgentListAnswer
	limit := events.ListLimitMax
	if q.Limit != nil {
		limit = *q.Limit
	}
	for _, a := range agents {
		if q.Root != nil && a.Root != *q.Root || q.Cursor != nil && a.ID <= *q.Cursor {
			continue
		}
		if int64(len(answer.Agents)) == limit {
			answer.Cursor = answer.Agents[limit-1].Agent
			break
		}
		// Revocation is one mark at the top of a subtree.
		gone := revoked[a.ID] || slices.ContainsFunc(a.Ancestors, func(id string) bool { return revoked[id] })
		answer.Agents = append(answer.Agents, agentRow(a, gone))
	}
	return bounded(answer.Append(nil), "agents")
}

func agentRow(a registry.Agent, revoked bool) events.AgentRow {
	row := events.AgentRow{
		Agent: a.ID, Org: a.Org, Name: a.Name, Pool: a.Pool, Parent: a.Parent, Root: a.Root, Depth: a.Depth,
		Revoked: revoked, CreatedAt: events.FormatMillis(a.CreatedAt), TokenHint: a.TokenHint,
	}
	if !a.ExpiresAt.IsZero() {
		row.ExpiresAt = events.FormatMillis(a.ExpiresAt)
	}
	return row
}

// agentShow answers from Redis whether the agent is revoked: it alone knows
// for certain.
func (r *Registrar) agentShow(ctx context.Context, req worker.AdminRequest) ([]byte, error) {
	q, refused := events.DecodeAgentShow(req.Body)
	if refused != nil {
		return nil, refused
	}
	a, _, err := r.cfg.Directory.Agent(ctx, q.Org, q.Agent)
	if err != nil {
		return nil, answerable(notFound(err, "agent", "agent"))
	}
	standing, err := r.cfg.Store.Standing(ctx, identity(a))
	if err != nil {
		return nil, answerable(err)
	}
	answer := events.AgentShowAnswer{
		AgentRow: agentRow(a, standing.Revoked), Purpose: a.Purpose, Ancestors: a.Ancestors,
		LivingChildren: standing.Children, LivingTree: standing.Tree,
	}
	if a.OldTokenUntil.After(now()) {
		answer.OldTokenUntil = events.FormatMillis(a.OldTokenUntil)
	}
	return answer.Append(nil), nil
}

func (r *Registrar) agentRotate(ctx context.Context, req worker.AdminRequest) ([]byte, error) {
	q, refused := events.DecodeAgentRotate(req.Body)
	if refused != nil {
		return nil, refused
	}
	var overlap time.Duration
	if q.OverlapMS != nil {
		overlap = time.Duration(*q.OverlapMS) * time.Millisecond
	}
	a, token, err := r.rotate(ctx, q.Org, q.Agent, overlap)
	if err == nil {
		err = r.administered(ctx, req, a.Org, a.ID)
	}
	if err != nil {
		return nil, answerable(err)
	}
	return events.AgentRotateAnswer{Agent: a.ID, Org: a.Org, Name: a.Name, Token: token, Pool: a.Pool}.Append(nil), nil
}

// rotate gives an agent a new token; the old one ends, at once or after the
// overlap.
func (r *Registrar) rotate(ctx context.Context, org, id string, overlap time.Duration) (a registry.Agent, token string, err error) {
	token = topology.NewToken()
	var oldUntil time.Time
	if overlap > 0 {
		oldUntil = now().Add(overlap)
	}
	a, err = r.changeAgent(ctx, org, id, func(a registry.Agent, revision uint64) error {
		return r.cfg.Directory.RotateToken(ctx, a, revision, topology.TokenHash(token), topology.TokenHint(token), oldUntil)
	})
	return a, token, err
}

// changeAgent reads an agent and changes it, again where somebody else did
// meanwhile.
func (r *Registrar) changeAgent(ctx context.Context, org, id string, change func(registry.Agent, uint64) error) (a registry.Agent, err error) {
	for range changesMax {
		var revision uint64
		a, revision, err = r.cfg.Directory.Agent(ctx, org, id)
		if err != nil {
			return a, notFound(err, "agent", "agent")
		}
		if err = change(a, revision); !errors.Is(err, registry.ErrConflict) {
			return a, err
		}
	}
	return a, err
}
