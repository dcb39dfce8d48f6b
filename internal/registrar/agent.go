package registrar

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

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
	if _, _, err := r.cfg.Directory.Pool(ctx, q.Org, q.Pool); err != nil {
		return nil, answerable(notFound(err, "pool", "pool"))
	}
	a, err := r.newAgent(ctx, q)
	if err != nil {
		return nil, answerable(err)
	}
	token := topology.NewToken()
	a.TokenHash, a.TokenHint = topology.TokenHash(token), topology.TokenHint(token)
	// The script is first: it alone knows for certain who is revoked.
	err = r.cfg.Store.RegisterAgent(ctx, redisx.RegisterArgs{Agent: identity(a), Name: a.Name, Pool: a.Pool, Root: a.Root, Depth: a.Depth, By: req.By, Why: req.Why})
	if errors.Is(err, redisx.ErrRevoked) {
		return nil, errParentRevoked()
	}
	if err == nil {
		err = r.cfg.Directory.CreateAgent(ctx, a)
	}
	if err != nil {
		return nil, answerable(err)
	}
	return events.AgentRegisterAnswer{
		Agent: a.ID, Org: a.Org, Name: a.Name, Token: token, Pool: a.Pool, Parent: a.Parent, Root: a.Root, Depth: a.Depth,
	}.Append(nil), nil
}

// newAgent is the agent that a request asks for. Root, depth and ancestors
// come from the parent's record, never from the request.
func (r *Registrar) newAgent(ctx context.Context, q events.AgentRegister) (registry.Agent, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return registry.Agent{}, fmt.Errorf("agent id: %w", err)
	}
	a := registry.Agent{Org: q.Org, ID: id.String(), Name: q.Name, Pool: q.Pool, Root: id.String(), CreatedAt: now()}
	if q.TTLMS != nil {
		a.ExpiresAt = a.CreatedAt.Add(time.Duration(*q.TTLMS) * time.Millisecond)
	}
	if q.Parent == nil {
		return a, nil
	}
	parent, _, err := r.cfg.Directory.Agent(ctx, q.Org, *q.Parent)
	if err != nil {
		return a, notFound(err, "agent", "parent")
	}
	if !parent.RevokedAt.IsZero() {
		return a, errParentRevoked()
	}
	if parent.Depth >= registry.AgentDepthMax {
		e := events.LimitExceeded("depth")
		e.Message = fmt.Sprintf("agents are nested at most %d deep", registry.AgentDepthMax)
		return a, e
	}
	a.Parent, a.Root, a.Depth = parent.ID, parent.Root, parent.Depth+1
	a.Ancestors = append([]string{parent.ID}, parent.Ancestors...)
	return a, nil
}

func errParentRevoked() error {
	return events.InvalidArgument("parent", "the parent or one of its ancestors is revoked", "register under a live agent")
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
	for _, a := range agents {
		answer.Agents = append(answer.Agents, events.AgentRow{
			Agent: a.ID, Org: a.Org, Name: a.Name, Pool: a.Pool, Parent: a.Parent, Root: a.Root, Depth: a.Depth,
			// Revocation is one mark at the top of a subtree.
			Revoked:   revoked[a.ID] || slices.ContainsFunc(a.Ancestors, func(id string) bool { return revoked[id] }),
			CreatedAt: events.FormatMillis(a.CreatedAt), TokenHint: a.TokenHint,
		})
	}
	return bounded(answer.Append(nil), "agents")
}

func (r *Registrar) agentRotate(ctx context.Context, req worker.AdminRequest) ([]byte, error) {
	q, refused := events.DecodeAgentRotate(req.Body)
	if refused != nil {
		return nil, refused
	}
	token := topology.NewToken()
	a, err := r.changeAgent(ctx, q.Org, q.Agent, func(a registry.Agent, revision uint64) error {
		return r.cfg.Directory.RotateToken(ctx, a, revision, topology.TokenHash(token), topology.TokenHint(token))
	})
	if err == nil {
		err = r.administered(ctx, req, a.Org, a.ID)
	}
	if err != nil {
		return nil, answerable(err)
	}
	return events.AgentRotateAnswer{Agent: a.ID, Org: a.Org, Name: a.Name, Token: token, Pool: a.Pool}.Append(nil), nil
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
