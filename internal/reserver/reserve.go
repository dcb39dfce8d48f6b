package reserver

import (
	"context"
	"errors"
	"time"

	"tallystick/internal/registry"
	"tallystick/internal/worker"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
	"tallystick/pkg/redisx"
)

// answerBytes is what an answer usually fits in.
const answerBytes = 384

// reserveJob takes money before it is spent.
type reserveJob struct {
	h       *Handler
	r       *worker.Request
	q       events.Reserve
	dryRun  bool
	path    []registry.Pool
	pending *redisx.Pending
}

func (h *Handler) reserve(r *worker.Request) (job, *events.Error) {
	q, e := events.DecodeReserve(r.Body)
	if e != nil {
		return nil, e
	}
	j := &reserveJob{h: h, r: r, q: q, dryRun: q.DryRun != nil && *q.DryRun}
	if j.dryRun {
		if r.Door != worker.Direct {
			return nil, events.InvalidArgument("dry_run", "a dry run is possible at the direct door only", "")
		}
		return j, nil
	}
	if e := events.CheckKey(r.Key); e != nil {
		return nil, e
	}
	return j, nil
}

func (j *reserveJob) queue(ctx context.Context, b *redisx.Batch) error {
	a, caller, err := j.h.caller(ctx, j.r.Org, j.r.Agent)
	if err != nil {
		return err
	}
	limits, err := j.limits(ctx, a)
	if err != nil && j.dryRun {
		return err
	}
	if err != nil {
		j.pending = b.Replay(j.r.Org, j.execution(), j.q.Fingerprint(), unreachable(err))
		return nil
	}
	args := redisx.ReserveArgs{
		Agent: caller, Settler: text(j.q.Settler), Amounts: j.q.Amounts, TTL: budget.TTLDefault,
		Path: limits, Slots: slotsOf(j.path, text(j.q.Target)), Target: text(j.q.Target), NotAfter: j.r.Deadline, DryRun: j.dryRun,
		Extra: redisx.Extra{
			Key: j.r.Key, OnBehalfOf: text(j.q.OnBehalfOf), Purpose: text(j.q.Purpose), Target: text(j.q.Target),
			Trace: j.r.Trace, Labels: j.q.Labels,
		},
	}
	if j.q.TTLMS != nil {
		args.TTL = time.Duration(*j.q.TTLMS) * time.Millisecond
	}
	if !j.dryRun {
		args.Execution = j.execution()
		args.Fingerprint = j.q.Fingerprint()
	}
	j.pending = b.Reserve(args)
	return nil
}

func (j *reserveJob) execution() string {
	return redisx.ExecutionID(j.r.Org, j.r.Agent, events.VerbReserve, j.r.Key)
}

// limits are what the request is charged to, or why it cannot be.
func (j *reserveJob) limits(ctx context.Context, a registry.Agent) (limits []budget.Limit, err error) {
	if err := j.h.settlerExists(ctx, j.r.Org, j.q.Settler); err != nil {
		return nil, err
	}
	if err := j.h.mayActFor(ctx, a, j.q.OnBehalfOf); err != nil {
		return nil, err
	}
	if j.path, err = j.h.path(ctx, a, j.q.Pool); err != nil {
		return nil, err
	}
	limits = limitsOf(j.path)
	if err := checkUnits(limits, j.q.Amounts); err != nil {
		return nil, err
	}
	return limits, addCeilings(limits, j.path[0].Name, j.q.Ceilings)
}

// settlerExists: a settler that is not there would be found out only when
// nobody settles.
func (h *Handler) settlerExists(ctx context.Context, org string, id *string) error {
	if id == nil {
		return nil
	}
	_, err := h.cfg.Registry.Agent(ctx, org, *id)
	if errors.Is(err, registry.ErrNotFound) {
		return events.NotFound("agent")
	}
	return err
}

func (j *reserveJob) pools() []string { return poolNames(j.path) }

func (j *reserveJob) answer() (worker.Answer, error) {
	if j.pending.Err != nil {
		return worker.Answer{}, j.pending.Err
	}
	return allowedOrDenied(&j.pending.Decision, j.q.Labels), nil
}

// allowedOrDenied is the answer of reserve and extend.
func allowedOrDenied(d *budget.Decision, labels map[string]string) worker.Answer {
	a := events.ReserveAnswer{Outcome: string(d.Outcome), Labels: labels}
	if d.Denial != nil {
		a.Denial = denial(d.Denial)
	} else {
		a.Reservation, a.Amounts, a.ExpiresAt, a.Pools = d.Reservation, d.Amounts, d.ExpiresAt, rows(d.Pools)
		if !d.Replayed {
			ms := d.ExpiresIn.Milliseconds()
			a.ExpiresInMS = &ms
		}
	}
	return worker.Answer{Body: a.Append(make([]byte, 0, answerBytes)), Replayed: d.Replayed, Denied: reason(d)}
}

// reason is why a decision is a denial, or nothing.
func reason(d *budget.Decision) events.Reason {
	if d.Denial == nil {
		return ""
	}
	return events.Reason(d.Denial.Reason)
}

func rows(pools []budget.PoolRow) []events.PoolRow {
	if len(pools) == 0 {
		return nil
	}
	out := make([]events.PoolRow, len(pools))
	for i := range pools {
		out[i] = row(&pools[i])
	}
	return out
}

func row(p *budget.PoolRow) events.PoolRow {
	return events.PoolRow{
		Pool: p.Pool, Unit: p.Unit, Period: p.Period, Cap: p.Cap + p.Adj,
		Held: p.Held, Spent: p.Spent, Withheld: p.Withheld, Remaining: p.Remaining(),
	}
}

func denial(d *budget.Denial) *events.Denial {
	out := &events.Denial{Reason: events.Reason(d.Reason), Pool: d.Limit.Pool, Unit: d.Limit.Unit, Period: d.Limit.Period}
	if d.HasFigures {
		c := d.Counters
		limit, remaining := c.Cap+c.Adj, c.Remaining()
		out.Requested, out.Cap, out.Held, out.Spent, out.Withheld, out.Remaining = &d.Requested, &limit, &c.Held, &c.Spent, &c.Withheld, &remaining
	}
	if d.Reason == budget.ReasonConcurrencyExceeded {
		out.Holders = &d.Holders
	}
	if wait := retryAfter(d); wait > 0 {
		ms := wait.Milliseconds()
		out.RetryAfterMS = &ms
	}
	return out
}

// heldRetry is when to ask again for money that others hold: nobody knows when
// they settle.
const heldRetry = time.Second

// retryAfter is when a new key may succeed; 0 where nothing that happens by
// itself would let it.
func retryAfter(d *budget.Denial) time.Duration {
	c := d.Counters
	if d.Reason == budget.ReasonBudgetExceeded && d.HasFigures && c.Spent+d.Requested <= c.Cap+c.Adj {
		return heldRetry
	}
	return d.RetryAfter
}
