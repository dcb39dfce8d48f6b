package registrar

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"tallystick/internal/registry"
	"tallystick/internal/topology"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
	"tallystick/pkg/redisx"
)

// newborn is an agent that is asked for, by an operator or by its parent. All
// else about it follows from the parent's record.
type newborn struct {
	org, name, purpose string
	parent             *registry.Agent // nil for a root
	pool               string          // what it draws on, or what its own is made under
	caps               budget.Amounts  // of its own pool; nil: it shares
	ttl                time.Duration   // 0: it ends with its parent

	execution, fingerprint string // of the request; execution "" makes a repeat another agent
	by, why                string
}

// register makes an agent. Redis is first: it alone knows for certain who is
// revoked and how many live, and it remembers the request, so that a repeat
// goes on where a crash has left off.
func (r *Registrar) register(ctx context.Context, n newborn) (a registry.Agent, token string, replayed bool, err error) {
	wanted, err := r.wanted(ctx, n)
	if err != nil {
		return a, "", false, err
	}
	found, replayed, err := r.admitted(ctx, n, wanted)
	if err != nil {
		return a, "", false, named(err)
	}
	if found.PoolParent != "" {
		if err := r.cfg.Directory.CreatePool(ctx, grantedPool(found)); err != nil && !errors.Is(err, registry.ErrExists) {
			return a, "", false, err
		}
	}
	a, token, err = r.known(ctx, agentOf(found), replayed)
	return a, token, replayed, err
}

// known writes an agent down with a token. One that is there already, because
// this is a repeat, gets a fresh token, and the earlier one ends.
func (r *Registrar) known(ctx context.Context, a registry.Agent, replayed bool) (registry.Agent, string, error) {
	if replayed {
		found, token, err := r.rotate(ctx, a.Org, a.ID, 0)
		if !isNotFound(err) {
			return found, token, err
		}
	}
	token := topology.NewToken()
	a.TokenHash, a.TokenHint = topology.TokenHash(token), topology.TokenHint(token)
	err := r.cfg.Directory.CreateAgent(ctx, a)
	if errors.Is(err, registry.ErrExists) { // the same request, at the same time
		return r.rotate(ctx, a.Org, a.ID, 0)
	}
	return a, token, err
}

func isNotFound(err error) bool {
	var e *events.Error
	return errors.As(err, &e) && e.Code == events.CodeNotFound
}

// wanted issues what the broker owns: the id, and where in the tree it is.
func (r *Registrar) wanted(ctx context.Context, n newborn) (redisx.RegisterArgs, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return redisx.RegisterArgs{}, fmt.Errorf("agent id: %w", err)
	}
	org, err := r.cfg.Directory.Org(ctx, n.org)
	if err != nil {
		return redisx.RegisterArgs{}, notFound(err, "pool", "pool")
	}
	born := now()
	w := redisx.RegisterArgs{
		Registration: redisx.Registration{
			Org: n.org, Agent: id.String(), Name: n.name, Root: id.String(), Pool: n.pool, Purpose: n.purpose,
			CreatedAtMS: born.UnixMilli(), By: n.by, Why: n.why, Fingerprint: n.fingerprint,
		},
		Execution: n.execution,
	}
	var depthMax int64
	depthMax, w.ChildrenMax, w.TreeMax = org.AgentLimits()
	if n.ttl > 0 {
		w.ExpiresAtMS = born.Add(n.ttl).UnixMilli()
	}
	if p := n.parent; p != nil {
		if int64(p.Depth) >= depthMax {
			return w, limitExceeded("depth", fmt.Sprintf("agents are nested at most %d deep", depthMax))
		}
		w.Parent, w.Root, w.Depth = p.ID, p.Root, p.Depth+1
		w.Ancestors = append([]string{p.ID}, p.Ancestors...)
		if end := p.ExpiresAt; !end.IsZero() && (w.ExpiresAtMS == 0 || end.UnixMilli() < w.ExpiresAtMS) {
			w.ExpiresAtMS = end.UnixMilli() // nobody outlives its parent
		}
	}
	if n.caps != nil {
		w.Pool, w.PoolParent, w.Granted = "agent:"+w.Agent, n.pool, n.caps
		w.Made = policyOf(grantedPool(w.Registration)).Limits
	}
	return w, nil
}

// staleMax bounds how often a registration is repeated with a fresh picture.
const staleMax = 3

// admitted asks Redis, again where a pool was changed meanwhile.
func (r *Registrar) admitted(ctx context.Context, n newborn, w redisx.RegisterArgs) (found redisx.Registration, replayed bool, err error) {
	for range staleMax {
		if w.Path, err = r.grantedOn(ctx, n); err != nil {
			return found, false, err
		}
		found, replayed, err = r.cfg.Store.Register(ctx, w)
		if !errors.Is(err, budget.ErrStalePolicy) {
			return found, replayed, err
		}
	}
	return found, false, fmt.Errorf("%w: %w", budget.ErrUnavailable, err)
}

// grantedOn checks the pool that is drawn on, and gives the limits that bound
// a grant: each of the path, in one of its units.
func (r *Registrar) grantedOn(ctx context.Context, n newborn) ([]budget.Limit, error) {
	path, err := r.cfg.Directory.Path(ctx, n.org, n.pool)
	if err != nil {
		return nil, notFound(err, "pool", "pool")
	}
	if path[0].Closed {
		return nil, errClosed("pool")
	}
	if n.caps == nil {
		return nil, nil
	}
	if len(path) >= registry.PoolDepthMax {
		return nil, limitExceeded("pool depth", fmt.Sprintf("a path has at most %d pools", registry.PoolDepthMax))
	}
	var limits []budget.Limit
	known := map[string]bool{}
	for _, p := range path {
		for _, l := range p.Limits {
			known[l.Unit] = true
			if _, ok := n.caps[l.Unit]; ok {
				limits = append(limits, budget.Limit{LimitID: budget.LimitID{Pool: p.Name, Unit: l.Unit, Period: l.Period}, Rev: p.Rev})
			}
		}
	}
	for _, unit := range slices.Sorted(maps.Keys(n.caps)) {
		if !known[unit] {
			return nil, events.UnitUnknown(unit)
		}
	}
	return limits, nil
}

// named is a refusal of the script in the contract's words.
func named(err error) error {
	var limit *redisx.AgentLimit
	switch {
	case errors.Is(err, budget.ErrKeyReused):
		return events.KeyReused("")
	case !errors.As(err, &limit):
		return err
	}
	switch limit.Field {
	case "children":
		return limitExceeded(limit.Field, "the parent has as many living children as its org allows")
	case "tree":
		return limitExceeded(limit.Field, "the tree has as many living agents as its org allows")
	}
	return limitExceeded(limit.Field, fmt.Sprintf("the grant is more than what remains of %s in pool %q", limit.Limit.Unit, limit.Limit.Pool))
}

func limitExceeded(field, message string) *events.Error {
	e := events.LimitExceeded(field)
	e.Message = message
	return e
}

func agentOf(r redisx.Registration) registry.Agent {
	a := registry.Agent{
		Org: r.Org, ID: r.Agent, Name: r.Name, Pool: r.Pool, Purpose: r.Purpose, Parent: r.Parent, Root: r.Root, Depth: r.Depth,
		Ancestors: r.Ancestors, CreatedAt: time.UnixMilli(r.CreatedAtMS).UTC(),
	}
	if r.ExpiresAtMS > 0 {
		a.ExpiresAt = time.UnixMilli(r.ExpiresAtMS).UTC()
	}
	return a
}

// grantedPool is the pool that was made for an agent, at its first revision.
func grantedPool(r redisx.Registration) registry.Pool {
	p := registry.Pool{Org: r.Org, Name: r.Pool, Parent: r.PoolParent, Rev: 1}
	for _, unit := range slices.Sorted(maps.Keys(r.Granted)) {
		limit := r.Granted[unit]
		p.Limits = append(p.Limits, newLimit(events.LimitSpec{Unit: unit, Cap: &limit}))
	}
	return p
}
