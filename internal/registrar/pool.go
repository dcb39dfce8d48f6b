package registrar

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"tallystick/internal/registry"
	"tallystick/internal/worker"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
)

// changesMax is how often a change is tried against others of the same record.
const changesMax = 8

func (r *Registrar) poolCreate(ctx context.Context, req worker.AdminRequest) ([]byte, error) {
	q, refused := events.DecodePoolCreate(req.Body)
	if refused != nil {
		return nil, refused
	}
	wanted, err := newPool(q)
	if err != nil {
		return nil, err
	}
	if err := r.needOrg(ctx, q.Org); err != nil {
		return nil, answerable(err)
	}
	wanted.By, wanted.Why = req.By, req.Why
	p, err := r.create(ctx, wanted)
	if err != nil {
		return nil, answerable(err)
	}
	return r.poolAnswer(ctx, events.OutcomeCreated, p)
}

// create writes a new pool, or finds that the same one exists already, and
// brings its policy to Redis either way: an earlier attempt may have ended
// between the two.
func (r *Registrar) create(ctx context.Context, wanted registry.Pool) (registry.Pool, error) {
	p, _, err := r.cfg.Directory.Pool(ctx, wanted.Org, wanted.Name)
	if errors.Is(err, registry.ErrNotFound) {
		if err := r.checkParent(ctx, wanted); err != nil {
			return p, err
		}
		p, err = wanted, r.cfg.Directory.CreatePool(ctx, wanted)
		if errors.Is(err, registry.ErrExists) {
			p, _, err = r.cfg.Directory.Pool(ctx, wanted.Org, wanted.Name)
		}
	}
	if err != nil {
		return p, err
	}
	if p.Parent != wanted.Parent || !sameContent(p, wanted) {
		return p, events.InvalidArgument("pool", "a pool of this name exists with other content", "change it with pool set")
	}
	return p, r.apply(ctx, p)
}

func (r *Registrar) checkParent(ctx context.Context, p registry.Pool) error {
	if p.Parent == "" {
		return nil
	}
	path, err := r.cfg.Directory.Path(ctx, p.Org, p.Parent)
	if err != nil {
		return notFound(err, "pool", "parent")
	}
	if len(path) >= registry.PoolDepthMax {
		return limitExceeded("pool depth", fmt.Sprintf("a path has at most %d pools", registry.PoolDepthMax))
	}
	if path[0].Closed {
		return errClosed("parent")
	}
	return nil
}

func sameContent(a, b registry.Pool) bool {
	return reflect.DeepEqual(a.Limits, b.Limits) && slices.Equal(a.Slots, b.Slots)
}

func (r *Registrar) poolSet(ctx context.Context, req worker.AdminRequest) ([]byte, error) {
	q, refused := events.DecodePoolSet(req.Body)
	if refused != nil {
		return nil, refused
	}
	if err := checkSet(q); err != nil {
		return nil, err
	}
	p, err := r.change(ctx, q.Org, q.Pool, func(p *registry.Pool) error {
		if p.Closed {
			return errClosed("pool")
		}
		p.By, p.Why = req.By, req.Why
		return edit(p, q)
	})
	if err != nil {
		return nil, answerable(err)
	}
	return r.poolAnswer(ctx, events.OutcomeSet, p)
}

// errClosed: a closed pool is history; it takes nothing and changes no more.
func errClosed(field string) *events.Error {
	return events.InvalidArgument(field, "the pool is closed for good", "make another one")
}

// poolClose ends a pool for good: holds are kept, and settled or released;
// nothing new is taken from it, or from any pool below it.
func (r *Registrar) poolClose(ctx context.Context, req worker.AdminRequest) ([]byte, error) {
	return r.changeState(ctx, req, events.OutcomeClosed, func(p *registry.Pool) error {
		p.Closed = true
		return nil
	})
}

func (r *Registrar) poolFreeze(ctx context.Context, req worker.AdminRequest) ([]byte, error) {
	return r.changeState(ctx, req, events.OutcomeFrozen, freeze(true))
}

func (r *Registrar) poolUnfreeze(ctx context.Context, req worker.AdminRequest) ([]byte, error) {
	return r.changeState(ctx, req, events.OutcomeUnfrozen, freeze(false))
}

func freeze(on bool) func(*registry.Pool) error {
	return func(p *registry.Pool) error {
		if p.Closed {
			return errClosed("pool")
		}
		p.Frozen = on
		return nil
	}
}

func (r *Registrar) changeState(ctx context.Context, req worker.AdminRequest, outcome string, edit func(*registry.Pool) error) ([]byte, error) {
	q, refused := events.DecodePoolName(req.Body)
	if refused != nil {
		return nil, refused
	}
	p, err := r.change(ctx, q.Org, q.Pool, func(p *registry.Pool) error {
		p.By, p.Why = req.By, req.Why
		return edit(p)
	})
	if err != nil {
		return nil, answerable(err)
	}
	return r.poolAnswer(ctx, outcome, p)
}

// change edits a pool: KV by compare-and-set, then Redis. The pool as it is
// goes to Redis first, so that where KV is behind nothing is changed.
func (r *Registrar) change(ctx context.Context, org, pool string, edit func(*registry.Pool) error) (registry.Pool, error) {
	var err error
	for range changesMax {
		var p registry.Pool
		var revision uint64
		p, revision, err = r.cfg.Directory.Pool(ctx, org, pool)
		if err != nil {
			return p, notFound(err, "pool", "pool")
		}
		changed := p
		changed.Limits, changed.Slots = slices.Clone(p.Limits), slices.Clone(p.Slots)
		if err := edit(&changed); err != nil {
			return p, err
		}
		if err := r.apply(ctx, p); err != nil {
			return p, err
		}
		if changed.Frozen == p.Frozen && changed.Closed == p.Closed && sameContent(changed, p) {
			return p, nil
		}
		changed.Rev++
		err = r.cfg.Directory.UpdatePool(ctx, changed, revision)
		if err == nil {
			return changed, r.apply(ctx, changed)
		}
		if !errors.Is(err, registry.ErrConflict) {
			return p, err
		}
	}
	return registry.Pool{}, err
}

func (r *Registrar) poolShow(ctx context.Context, req worker.AdminRequest) ([]byte, error) {
	q, refused := events.DecodePoolShow(req.Body)
	if refused != nil {
		return nil, refused
	}
	pools, err := r.shown(ctx, q)
	if err != nil {
		return nil, answerable(err)
	}
	var answer events.PoolShowAnswer
	for _, p := range pools {
		row, err := r.poolRow(ctx, p)
		if err != nil {
			return nil, answerable(err)
		}
		answer.Pools = append(answer.Pools, row)
	}
	return bounded(answer.Append(nil), "pools")
}

func (r *Registrar) shown(ctx context.Context, q events.PoolShow) ([]registry.Pool, error) {
	if q.Pool == nil {
		if err := r.needOrg(ctx, q.Org); err != nil {
			return nil, err
		}
		return r.cfg.Directory.Pools(ctx, q.Org)
	}
	p, _, err := r.cfg.Directory.Pool(ctx, q.Org, *q.Pool)
	return []registry.Pool{p}, notFound(err, "pool", "pool")
}

func (r *Registrar) poolAnswer(ctx context.Context, outcome string, p registry.Pool) ([]byte, error) {
	row, err := r.poolRow(ctx, p)
	if err != nil {
		return nil, answerable(err)
	}
	return events.PoolAnswer{Outcome: outcome, Pool: row}.Append(nil), nil
}

// poolRow is a pool as operators see it: rules from KV, figures from Redis.
func (r *Registrar) poolRow(ctx context.Context, p registry.Pool) (events.Pool, error) {
	row := events.Pool{Org: p.Org, Pool: p.Name, Parent: p.Parent, Rev: p.Rev, Frozen: p.Frozen, Closed: p.Closed}
	ids := make([]budget.LimitID, len(p.Limits))
	for i, l := range p.Limits {
		ids[i] = budget.LimitID{Pool: p.Name, Unit: l.Unit, Period: l.Period}
	}
	figures, err := r.cfg.Store.Balances(ctx, p.Org, ids)
	if err != nil {
		return row, err
	}
	for i, l := range p.Limits {
		f := figures[i]
		row.Limits = append(row.Limits, events.PoolLimit{
			Unit: l.Unit, Period: l.Period, Cap: l.Cap, Epsilon: l.Epsilon, OnOverrun: l.OnOverrun, LateWindowMS: l.LateWindowMS,
			Held: f.Held, Spent: f.Spent, Withheld: f.Withheld, Remaining: f.Remaining(), Outstanding: f.Outstanding,
		})
	}
	for _, s := range p.Slots {
		row.Slots = append(row.Slots, events.Slot{Pattern: s.Pattern, Max: s.Max})
	}
	return row, nil
}
