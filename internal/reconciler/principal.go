package reconciler

import (
	"cmp"
	"context"
	"slices"

	"tallystick/internal/worker"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
)

// principal is on whose behalf entries were written.
type principal struct{ org, name string }

// attribute adds an entry's moves to those of its principal. An entry carries
// the principal of its reservation, whichever verb wrote it, so the sums of
// all principals and of what has none are the counters. Entries without one
// cost nothing here.
func (f *fold) attribute(e *budget.Entry) {
	if e.OnBehalfOf == "" || len(e.Moves) == 0 {
		return
	}
	key := principal{e.Org, e.OnBehalfOf}
	limits := f.principals[key]
	if limits == nil {
		limits = map[budget.LimitID]budget.Counters{}
		f.principals[key] = limits
	}
	for _, m := range e.Moves {
		limits[m.LimitID] = limits[m.LimitID].Plus(m)
	}
}

// balanceOf lists a principal's sums by pool, unit and period.
func (f *fold) balanceOf(org, name string) []events.PrincipalRow {
	var rows []events.PrincipalRow
	for id, c := range f.principals[principal{org, name}] {
		rows = append(rows, events.PrincipalRow{Pool: id.Pool, Unit: id.Unit, Period: id.Period, Held: c.Held, Spent: c.Spent, Withheld: c.Withheld})
	}
	slices.SortFunc(rows, func(a, b events.PrincipalRow) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Unit, b.Unit), cmp.Compare(a.Period, b.Period))
	})
	return rows
}

// PrincipalBalance is what the ledger says was done for a principal, as of the
// ledger's end. A principal of which no entry tells has no rows, registered or
// not: who exists is the registrar's to say.
func (r *Reconciler) PrincipalBalance(ctx context.Context, org, name string) (events.PrincipalBalanceAnswer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.catchUp(ctx); err != nil {
		return events.PrincipalBalanceAnswer{}, err
	}
	return events.PrincipalBalanceAnswer{Org: org, Principal: name, AsOfSeq: r.fold.after, Balance: r.fold.balanceOf(org, name)}, nil
}

func (r *Reconciler) servePrincipalBalance(ctx context.Context, req worker.AdminRequest) ([]byte, error) {
	q, refused := events.DecodePrincipalName(req.Body)
	if refused != nil {
		return nil, refused
	}
	answer, err := r.PrincipalBalance(ctx, q.Org, q.Principal)
	if err != nil {
		return nil, answerable(err)
	}
	return answer.Append(nil), nil
}
