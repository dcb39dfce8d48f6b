package reserver

import (
	"context"
	"errors"
	"slices"

	"tallystick/internal/registry"
	"tallystick/internal/worker"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
	"tallystick/pkg/redisx"
)

// balanceJob shows every limit from a pool up to its root.
type balanceJob struct {
	h       *Handler
	r       *worker.Request
	q       events.Balance
	path    []registry.Pool
	pending *redisx.PendingBalance
}

func (h *Handler) balance(r *worker.Request) (job, *events.Error) {
	q, e := events.DecodeBalance(r.Body)
	if e != nil {
		return nil, e
	}
	return &balanceJob{h: h, r: r, q: q}, nil
}

func (j *balanceJob) queue(ctx context.Context, b *redisx.Batch) error {
	a, _, err := j.h.caller(ctx, j.r.Org, j.r.Agent)
	if err != nil {
		return err
	}
	if j.path, err = j.h.path(ctx, a, j.q.Pool); err != nil {
		return err
	}
	limits := limitsOf(j.path)
	ids := make([]budget.LimitID, len(limits))
	for i := range limits {
		ids[i] = limits[i].LimitID
	}
	j.pending = b.Balance(j.r.Org, ids)
	return nil
}

func (j *balanceJob) pools() []string { return poolNames(j.path) }

func (j *balanceJob) answer() (worker.Answer, error) {
	if j.pending.Err != nil {
		return worker.Answer{}, j.pending.Err
	}
	a := events.BalanceAnswer{Pools: make([]events.BalanceRow, len(j.pending.Rows))}
	for i := range j.pending.Rows {
		p := &j.pending.Rows[i]
		a.Pools[i] = events.BalanceRow{PoolRow: row(p), Outstanding: p.Outstanding}
	}
	return worker.Answer{Body: a.Append(make([]byte, 0, answerBytes))}, nil
}

// reservationJob shows one reservation, or the caller's live ones.
type reservationJob struct {
	h       *Handler
	r       *worker.Request
	q       events.ReservationQuery
	ids     []string
	records []*redisx.PendingRecord
	cursor  string
}

func (h *Handler) reservation(r *worker.Request) (job, *events.Error) {
	q, e := events.DecodeReservationQuery(r.Body)
	if e != nil {
		return nil, e
	}
	return &reservationJob{h: h, r: r, q: q}, nil
}

func (j *reservationJob) queue(ctx context.Context, b *redisx.Batch) error {
	j.ids, j.records = nil, nil
	switch {
	case j.q.Reservation != nil:
		j.ids = []string{*j.q.Reservation}
	case j.q.Key != nil:
		j.ids = []string{redisx.ExecutionID(j.r.Org, j.r.Agent, events.VerbReserve, *j.q.Key)}
	default:
		if err := j.page(ctx); err != nil {
			return err
		}
	}
	for _, id := range j.ids {
		j.records = append(j.records, b.Record(j.r.Org, id))
	}
	return nil
}

// page picks the ids after the cursor, which is the last id of the page before.
func (j *reservationJob) page(ctx context.Context) error {
	ids, err := j.h.cfg.Store.Live(ctx, j.r.Org, j.r.Agent)
	if err != nil {
		return err
	}
	limit := events.ListLimitDefault
	if j.q.Limit != nil {
		limit = *j.q.Limit
	}
	start, found := slices.BinarySearch(ids, text(j.q.Cursor))
	if found {
		start++
	}
	j.ids = ids[start:]
	if int64(len(j.ids)) > limit {
		j.ids = j.ids[:limit]
		j.cursor = j.ids[limit-1]
	}
	return nil
}

func (j *reservationJob) pools() []string { return nil }

func (j *reservationJob) answer() (worker.Answer, error) {
	if j.q.List() {
		return j.list()
	}
	p := j.records[0]
	if p.Err != nil {
		return worker.Answer{}, p.Err
	}
	if !j.visible(&p.Record) {
		return worker.Answer{}, budget.ErrNotFound
	}
	return worker.Answer{Body: shown(j.ids[0], &p.Record).Append(make([]byte, 0, answerBytes))}, nil
}

func (j *reservationJob) list() (worker.Answer, error) {
	a := events.ReservationsAnswer{Cursor: j.cursor}
	for i, p := range j.records {
		if errors.Is(p.Err, budget.ErrNotFound) {
			continue // resolved and forgotten between the two reads
		}
		if p.Err != nil {
			return worker.Answer{}, p.Err
		}
		a.Reservations = append(a.Reservations, shown(j.ids[i], &p.Record))
	}
	return worker.Answer{Body: a.Append(nil)}, nil
}

// visible: to whoever may resolve it, and only what was once granted.
func (j *reservationJob) visible(r *redisx.Record) bool {
	switch r.State {
	case budget.StateDenied, budget.StateTombstone, budget.StateCharged:
		return false
	}
	return r.Org == j.r.Org && (r.Agent == j.r.Agent || r.Settler == j.r.Agent || slices.Contains(r.Ancestors, j.r.Agent))
}

func shown(id string, r *redisx.Record) events.ReservationAnswer {
	a := events.ReservationAnswer{
		Reservation: id, State: string(r.State), Amounts: r.Amounts, Agent: r.Agent, Pool: r.Pool(), Target: r.Extra.Target,
		CreatedAt: r.CreatedAt, ExpiresAt: r.ExpiresAt, Labels: r.Extra.Labels,
	}
	switch r.State {
	case budget.StateSettled, budget.StateLateSettled, budget.StateReleased, budget.StateLapsed:
		a.ResolvedAt = r.Till
	}
	a.Charged, a.Returned = r.Resolved()
	return a
}

// whoamiJob shows the caller's identity.
type whoamiJob struct {
	h     *Handler
	r     *worker.Request
	agent registry.Agent
}

func (h *Handler) whoami(r *worker.Request) (job, *events.Error) {
	if _, e := events.DecodeWhoami(r.Body); e != nil {
		return nil, e
	}
	return &whoamiJob{h: h, r: r}, nil
}

func (j *whoamiJob) queue(ctx context.Context, _ *redisx.Batch) (err error) {
	j.agent, _, err = j.h.caller(ctx, j.r.Org, j.r.Agent)
	return err
}

func (j *whoamiJob) pools() []string { return nil }

func (j *whoamiJob) answer() (worker.Answer, error) {
	a := &j.agent
	w := events.WhoamiAnswer{Agent: a.ID, Org: a.Org, Name: a.Name, Parent: a.Parent, Root: a.Root, Depth: a.Depth, Pool: a.Pool, ExpiresAt: a.ExpiresAt}
	return worker.Answer{Body: w.Append(make([]byte, 0, answerBytes))}, nil
}
