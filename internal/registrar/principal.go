package registrar

import (
	"context"
	"errors"
	"slices"

	"tallystick/internal/registry"
	"tallystick/internal/worker"
	"tallystick/pkg/events"
)

// Principals live in KV alone: no script looks at them, so there is nothing to
// bring to Redis.

func (r *Registrar) principalCreate(ctx context.Context, req worker.AdminRequest) ([]byte, error) {
	q, refused := events.DecodePrincipalCreate(req.Body)
	if refused != nil {
		return nil, refused
	}
	if err := r.needOrg(ctx, q.Org); err != nil {
		return nil, answerable(err)
	}
	if err := r.needAgents(ctx, q.Org, q.Managers, "managers"); err != nil {
		return nil, answerable(err)
	}
	wanted := registry.Principal{Org: q.Org, Name: q.Principal, Managers: slices.Sorted(slices.Values(q.Managers)), Rev: 1, CreatedAt: now()}
	if q.Display != nil {
		wanted.Display = *q.Display
	}
	p, err := wanted, r.cfg.Directory.CreatePrincipal(ctx, wanted)
	if errors.Is(err, registry.ErrExists) {
		p, _, err = r.cfg.Directory.Principal(ctx, q.Org, q.Principal)
	}
	if err != nil {
		return nil, answerable(err)
	}
	if p.Display != wanted.Display || !slices.Equal(p.Managers, wanted.Managers) {
		return nil, events.InvalidArgument("principal", "a principal of this name exists with other content", "change it with principal set")
	}
	if err := r.administered(ctx, req, q.Org, q.Principal); err != nil {
		return nil, answerable(err)
	}
	return events.PrincipalAnswer{Outcome: events.OutcomeCreated, Principal: principalRow(p)}.Append(nil), nil
}

// needAgents refuses an agent that the org does not have.
func (r *Registrar) needAgents(ctx context.Context, org string, ids []string, field string) error {
	for _, id := range ids {
		if _, _, err := r.cfg.Directory.Agent(ctx, org, id); err != nil {
			return notFound(err, "agent", field)
		}
	}
	return nil
}

func (r *Registrar) principalSet(ctx context.Context, req worker.AdminRequest) ([]byte, error) {
	q, refused := events.DecodePrincipalSet(req.Body)
	if refused != nil {
		return nil, refused
	}
	if len(q.Add)+len(q.Remove) == 0 && q.Display == nil {
		return nil, events.InvalidArgument("", "nothing to change is named", "name add, remove or display")
	}
	if err := r.needAgents(ctx, q.Org, q.Add, "add"); err != nil {
		return nil, answerable(err)
	}
	// A slip in remove would leave a manager in place unnoticed.
	if err := r.needAgents(ctx, q.Org, q.Remove, "remove"); err != nil {
		return nil, answerable(err)
	}
	p, err := r.changePrincipal(ctx, q)
	if err == nil {
		err = r.administered(ctx, req, q.Org, q.Principal)
	}
	if err != nil {
		return nil, answerable(err)
	}
	return events.PrincipalAnswer{Outcome: events.OutcomeSet, Principal: principalRow(p)}.Append(nil), nil
}

// changePrincipal edits a principal by compare-and-set, again where somebody
// else did meanwhile.
func (r *Registrar) changePrincipal(ctx context.Context, q events.PrincipalSet) (registry.Principal, error) {
	var err error
	for range changesMax {
		var p registry.Principal
		var revision uint64
		p, revision, err = r.cfg.Directory.Principal(ctx, q.Org, q.Principal)
		if err != nil {
			return p, notFound(err, "principal", "principal")
		}
		changed := editPrincipal(p, q)
		if len(changed.Managers) > events.MaxManagers {
			return p, events.LimitExceeded("managers")
		}
		if changed.Display == p.Display && slices.Equal(changed.Managers, p.Managers) {
			return p, nil
		}
		changed.Rev++
		if err = r.cfg.Directory.UpdatePrincipal(ctx, changed, revision); err == nil {
			return changed, nil
		}
		if !errors.Is(err, registry.ErrConflict) {
			return p, err
		}
	}
	return registry.Principal{}, err
}

func editPrincipal(p registry.Principal, q events.PrincipalSet) registry.Principal {
	managers := slices.Concat(p.Managers, q.Add)
	managers = slices.DeleteFunc(managers, func(id string) bool { return slices.Contains(q.Remove, id) })
	slices.Sort(managers)
	p.Managers = slices.Compact(managers)
	if q.Display != nil {
		p.Display = *q.Display
	}
	return p
}

func (r *Registrar) principalList(ctx context.Context, req worker.AdminRequest) ([]byte, error) {
	q, refused := events.DecodePrincipalList(req.Body)
	if refused != nil {
		return nil, refused
	}
	if err := r.needOrg(ctx, q.Org); err != nil {
		return nil, answerable(err)
	}
	all, err := r.cfg.Directory.Principals(ctx, q.Org)
	if err != nil {
		return nil, answerable(err)
	}
	var answer events.PrincipalListAnswer
	for _, p := range all {
		answer.Principals = append(answer.Principals, principalRow(p))
	}
	return bounded(answer.Append(nil), "principals")
}

func (r *Registrar) principalShow(ctx context.Context, req worker.AdminRequest) ([]byte, error) {
	q, refused := events.DecodePrincipalName(req.Body)
	if refused != nil {
		return nil, refused
	}
	p, _, err := r.cfg.Directory.Principal(ctx, q.Org, q.Principal)
	if err != nil {
		return nil, answerable(notFound(err, "principal", "principal"))
	}
	return events.PrincipalAnswer{Principal: principalRow(p)}.Append(nil), nil
}

func principalRow(p registry.Principal) events.Principal {
	return events.Principal{
		Org: p.Org, Principal: p.Name, Display: p.Display, Managers: p.Managers, Rev: p.Rev,
		CreatedAt: events.FormatMillis(p.CreatedAt),
	}
}
