package registrar

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"tallystick/internal/registry"
	"tallystick/internal/worker"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
	"tallystick/pkg/redisx"
)

// releaseMax bounds one pipeline of releases.
const releaseMax = 256

// revokedReason stands on the entry of each hold that a revocation gave back.
const revokedReason = "agent revoked"

func (r *Registrar) agentRevoke(ctx context.Context, req worker.AdminRequest) ([]byte, error) {
	q, refused := events.DecodeAgentRevoke(req.Body)
	if refused != nil {
		return nil, refused
	}
	a, _, err := r.cfg.Directory.Agent(ctx, q.Org, q.Agent)
	if err != nil {
		return nil, answerable(notFound(err, "agent", "agent"))
	}
	n, err := r.revoke(ctx, a, q.Holds, redisx.RevokeArgs{By: req.By, Why: req.Why})
	if err != nil {
		return nil, answerable(err)
	}
	return events.RevokeAnswer{Outcome: events.OutcomeRevoked, Agents: n}.Append(nil), nil
}

// revoke ends an agent and its subtree, and tells how many these are. From the
// script on nothing new is taken by them, so what they hold then is all there
// is to release; what comes after it may be repeated.
func (r *Registrar) revoke(ctx context.Context, a registry.Agent, holds *string, args redisx.RevokeArgs) (int, error) {
	args.Agent = identity(a)
	if err := r.cfg.Store.Revoke(ctx, args); err != nil {
		return 0, err
	}
	_, err := r.changeAgent(ctx, a.Org, a.ID, func(a registry.Agent, revision uint64) error {
		if !a.RevokedAt.IsZero() {
			return nil
		}
		a.RevokedAt = now()
		return r.cfg.Directory.UpdateAgent(ctx, a, revision)
	})
	if err != nil {
		return 0, err
	}
	subtree, err := r.subtree(ctx, a)
	if err != nil {
		return 0, err
	}
	ended := make([]budget.Agent, len(subtree))
	for i, member := range subtree {
		ended[i] = identity(member)
	}
	if err := r.cfg.Store.Uncount(ctx, a.Root, ended); err != nil {
		return 0, err
	}
	if holds != nil && *holds == events.HoldsRelease {
		for _, holder := range subtree {
			if err := r.releaseAll(ctx, args, holder); err != nil {
				return 0, err
			}
		}
	}
	return len(subtree), nil
}

// subtree lists an agent with its descendants.
func (r *Registrar) subtree(ctx context.Context, top registry.Agent) ([]registry.Agent, error) {
	agents, err := r.cfg.Directory.Agents(ctx, top.Org)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(agents, func(a registry.Agent) bool {
		return a.ID != top.ID && !slices.Contains(a.Ancestors, top.ID)
	}), nil
}

// releaseAll gives back everything an agent holds.
func (r *Registrar) releaseAll(ctx context.Context, revoked redisx.RevokeArgs, holder registry.Agent) error {
	live, err := r.cfg.Store.Live(ctx, holder.Org, holder.ID)
	if err != nil {
		return err
	}
	for ids := range slices.Chunk(live, releaseMax) {
		if err := r.release(ctx, revoked, holder, ids); err != nil {
			return err
		}
	}
	return nil
}

func (r *Registrar) release(ctx context.Context, revoked redisx.RevokeArgs, holder registry.Agent, ids []string) error {
	batch := r.cfg.Store.Batch()
	sent := make([]*redisx.Pending, len(ids))
	for i, id := range ids {
		reason := revokedReason
		sent[i] = batch.Release(redisx.ReleaseArgs{
			Caller: identity(holder), Operator: true, Execution: id, Key: "revoke:" + revoked.Agent.ID, Reason: reason,
			By: revoked.By, Why: revoked.Why,
			Fingerprint: events.Release{Reservation: &id, Reason: &reason}.Fingerprint(),
		})
	}
	batch.Run(ctx)
	for i, p := range sent {
		if p.Err != nil && !resolved(p.Err) {
			return fmt.Errorf("release %s: %w", ids[i], p.Err)
		}
		if p.Err == nil && p.Decision.Outcome == budget.Refused {
			// Its cost is known from a refused settle: it waits for another
			// settle or its deadline, as it would without the revocation.
			r.cfg.Log.Info().Str("reservation", ids[i]).Msg("not released: its overrun is on the ledger")
		}
	}
	return nil
}

// resolved: somebody else was quicker, and nothing is held any more.
func resolved(err error) bool {
	return errors.Is(err, budget.ErrNotFound) || errors.Is(err, budget.ErrAlreadySettled) ||
		errors.Is(err, budget.ErrAlreadyReleased) || errors.Is(err, budget.ErrAlreadyExpired)
}
