package registrar

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"tallystick/internal/registry"
	"tallystick/internal/topology"
	"tallystick/internal/worker"
	"tallystick/pkg/events"
	"tallystick/pkg/redisx"
)

const (
	// adminsMax bounds an org's active admins.
	adminsMax = 100
	// removedMax is how many removed ones stay on record; the ledger has all.
	removedMax = 100
)

// administered writes down who did what has no entry of its own, and why. It
// comes after the change: where it fails the operator is told to repeat, and
// every such verb may be repeated.
func (r *Registrar) administered(ctx context.Context, req worker.AdminRequest, org, subject string) error {
	return r.cfg.Store.Administer(ctx, redisx.AdministerArgs{Org: org, Action: req.Verb, By: req.By, Why: req.Why, Subject: subject})
}

func (r *Registrar) adminAdd(ctx context.Context, req worker.AdminRequest) ([]byte, error) {
	q, refused := events.DecodeAdminAdd(req.Body)
	if refused != nil {
		return nil, refused
	}
	if err := r.needOrg(ctx, q.Org); err != nil {
		return nil, answerable(err)
	}
	role := events.RoleAdmin
	if q.Role != nil {
		role = *q.Role
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("admin id: %w", err)
	}
	fresh := registry.Admin{Org: q.Org, ID: id.String(), Name: q.Name, Role: role, Active: true, CreatedAt: now()}
	return r.giveToken(ctx, req, q.Org, func(all []registry.Admin) ([]registry.Admin, int, error) {
		if i := slices.IndexFunc(all, func(a registry.Admin) bool { return a.Active && a.Name == q.Name }); i >= 0 {
			if all[i].Role != role {
				return nil, 0, events.InvalidArgument("role", "an admin of this name exists with another role", "change it with admin set, or choose another name")
			}
			return all, i, nil
		}
		if count(all, active) >= adminsMax {
			e := events.LimitExceeded("admins")
			e.Message = fmt.Sprintf("an org has at most %d active admins", adminsMax)
			return nil, 0, e
		}
		all = append(forget(all), fresh)
		return all, len(all) - 1, nil
	})
}

func (r *Registrar) adminRotate(ctx context.Context, req worker.AdminRequest) ([]byte, error) {
	q, refused := events.DecodeAdminName(req.Body)
	if refused != nil {
		return nil, refused
	}
	return r.giveToken(ctx, req, q.Org, func(all []registry.Admin) ([]registry.Admin, int, error) {
		i := slices.IndexFunc(all, func(a registry.Admin) bool { return a.Active && a.ID == q.Admin })
		if i < 0 {
			return nil, 0, errNoAdmin()
		}
		return all, i, nil
	})
}

// giveToken gives the admin that pick finds or makes a new token. The token
// leads nowhere until the admin's own record names it, which ends the old one.
func (r *Registrar) giveToken(
	ctx context.Context, req worker.AdminRequest, org string, pick func([]registry.Admin) ([]registry.Admin, int, error),
) ([]byte, error) {
	token := topology.NewToken()
	var given registry.Admin
	var old string
	err := r.cfg.Directory.ChangeAdmins(ctx, org, func(all []registry.Admin) ([]registry.Admin, error) {
		all, i, err := pick(all)
		if err != nil {
			return nil, err
		}
		old = all[i].TokenHash
		all[i].TokenHash, all[i].TokenHint = topology.TokenHash(token), topology.TokenHint(token)
		given = all[i]
		return all, nil
	})
	if err == nil {
		err = r.cfg.Directory.AddAdminToken(ctx, given.TokenHash, org, given.ID)
	}
	if err == nil && old != "" {
		err = r.cfg.Directory.RemoveToken(ctx, old)
	}
	if err == nil {
		err = r.administered(ctx, req, org, given.ID)
	}
	if err != nil {
		return nil, answerable(err)
	}
	return events.AdminTokenAnswer{Admin: given.ID, Org: org, Name: given.Name, Role: given.Role, Token: token}.Append(nil), nil
}

func (r *Registrar) adminList(ctx context.Context, req worker.AdminRequest) ([]byte, error) {
	q, refused := events.DecodeAdminList(req.Body)
	if refused != nil {
		return nil, refused
	}
	if err := r.needOrg(ctx, q.Org); err != nil {
		return nil, answerable(err)
	}
	admins, err := r.cfg.Directory.Admins(ctx, q.Org)
	if err != nil {
		return nil, answerable(err)
	}
	var answer events.AdminListAnswer
	for _, a := range admins {
		answer.Admins = append(answer.Admins, adminRow(a))
	}
	return bounded(answer.Append(nil), "admins")
}

func adminRow(a registry.Admin) events.AdminRow {
	return events.AdminRow{
		Admin: a.ID, Org: a.Org, Name: a.Name, Role: a.Role, Active: a.Active,
		CreatedAt: events.FormatMillis(a.CreatedAt), TokenHint: a.TokenHint,
	}
}

func (r *Registrar) adminSet(ctx context.Context, req worker.AdminRequest) ([]byte, error) {
	q, refused := events.DecodeAdminSet(req.Body)
	if refused != nil {
		return nil, refused
	}
	return r.changeAdmin(ctx, req, q.Org, q.Admin, events.OutcomeSet, func(a *registry.Admin) error {
		if !a.Active {
			return errNoAdmin()
		}
		a.Role = q.Role
		return nil
	})
}

func (r *Registrar) adminRemove(ctx context.Context, req worker.AdminRequest) ([]byte, error) {
	q, refused := events.DecodeAdminName(req.Body)
	if refused != nil {
		return nil, refused
	}
	return r.changeAdmin(ctx, req, q.Org, q.Admin, events.OutcomeRemoved, func(a *registry.Admin) error {
		a.Active = false
		return nil
	})
}

// changeAdmin changes one admin, unless that would leave an org that has an
// admin with none. All of an org's admins are one record, so whoever is
// quicker counts for whoever comes second.
func (r *Registrar) changeAdmin(
	ctx context.Context, req worker.AdminRequest, org, id, outcome string, change func(*registry.Admin) error,
) ([]byte, error) {
	var changed registry.Admin
	err := r.cfg.Directory.ChangeAdmins(ctx, org, func(all []registry.Admin) ([]registry.Admin, error) {
		i := slices.IndexFunc(all, func(a registry.Admin) bool { return a.ID == id })
		if i < 0 {
			return nil, errNoAdmin()
		}
		before := count(all, governs)
		if err := change(&all[i]); err != nil {
			return nil, err
		}
		if before > 0 && count(all, governs) == 0 {
			return nil, errLastAdmin()
		}
		changed = all[i]
		return all, nil
	})
	if err == nil && !changed.Active {
		// Its record does not count any more; what leads to it may go.
		err = r.cfg.Directory.RemoveToken(ctx, changed.TokenHash)
	}
	if err == nil {
		err = r.administered(ctx, req, org, id)
	}
	if err != nil {
		return nil, answerable(err)
	}
	return events.AdminAnswer{Outcome: outcome, AdminRow: adminRow(changed)}.Append(nil), nil
}

func active(a registry.Admin) bool  { return a.Active }
func governs(a registry.Admin) bool { return a.Active && a.Role == events.RoleAdmin }

func count(all []registry.Admin, is func(registry.Admin) bool) (n int) {
	for _, a := range all {
		if is(a) {
			n++
		}
	}
	return n
}

// forget drops the oldest removed admins beyond removedMax.
func forget(all []registry.Admin) []registry.Admin {
	surplus := len(all) - count(all, active) - removedMax
	return slices.DeleteFunc(all, func(a registry.Admin) bool {
		if a.Active || surplus <= 0 {
			return false
		}
		surplus--
		return true
	})
}

// errNoAdmin is the same for an admin of another org, for one that never was,
// and for an org that does not exist.
func errNoAdmin() error { return notFound(registry.ErrNotFound, "admin", "admin") }

func errLastAdmin() error {
	e := events.LimitExceeded("admin")
	e.Message = "the last active admin of an org can neither be removed nor demoted"
	e.Hint = "add or promote another admin first"
	return e
}
