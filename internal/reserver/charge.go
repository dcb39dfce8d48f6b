package reserver

import (
	"context"
	"time"

	"tallystick/internal/registry"
	"tallystick/internal/worker"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
	"tallystick/pkg/redisx"
)

// incurredMax is how old an incurred charge may be that is still booked
// without a person having looked at it: its period may be closed by now.
const incurredMax = 12 * time.Hour

// deadIncurred is the reason of the dead letter of one that is older.
const deadIncurred = "incurred_too_old"

// chargeJob spends in one step.
type chargeJob struct {
	h        *Handler
	r        *worker.Request
	q        events.Charge
	incurred bool
	path     []registry.Pool
	pending  *redisx.Pending
}

func (h *Handler) charge(r *worker.Request) (job, *events.Error) {
	q, e := events.DecodeCharge(r.Body)
	if e != nil {
		return nil, e
	}
	if e := events.CheckKey(r.Key); e != nil {
		return nil, e
	}
	return &chargeJob{h: h, r: r, q: q, incurred: q.Incurred != nil && *q.Incurred}, nil
}

// tooOld: an incurred charge that has waited too long goes to the dead letters
// unexecuted. Its decision says that nothing is known, so that whoever still
// waits repeats it.
func (h *Handler) tooOld(r *worker.Request, j job) (worker.Answer, bool) {
	c, ok := j.(*chargeJob)
	if !ok || !c.incurred || r.Door != worker.Durable || h.cfg.Now().Sub(r.StoredAt) <= incurredMax {
		return worker.Answer{}, false
	}
	a := worker.ErrorAnswer(events.Unavailable(0))
	a.Dead = deadIncurred
	return a, true
}

func (j *chargeJob) queue(ctx context.Context, b *redisx.Batch) error {
	a, caller, err := j.h.caller(ctx, j.r.Org, j.r.Agent)
	if err != nil {
		return err
	}
	execution := redisx.ExecutionID(j.r.Org, j.r.Agent, events.VerbCharge, j.r.Key)
	limits, err := j.limits(ctx, a)
	if err != nil {
		j.pending = b.Replay(j.r.Org, execution, j.q.Fingerprint(), unreachable(err))
		return nil
	}
	args := redisx.ChargeArgs{
		Agent: caller, Execution: execution, Fingerprint: j.q.Fingerprint(),
		Amounts: j.q.Actual, Path: limits, Incurred: j.incurred, NotAfter: j.r.Deadline,
		Extra: redisx.Extra{Key: j.r.Key, OnBehalfOf: text(j.q.OnBehalfOf), Purpose: text(j.q.Purpose), Trace: j.r.Trace, Labels: j.q.Labels},
	}
	if j.incurred { // the money is gone: no deadline brings it back
		args.NotAfter = time.Time{}
	}
	j.pending = b.Charge(args)
	return nil
}

// limits are what the charge is booked to, or why it cannot be.
func (j *chargeJob) limits(ctx context.Context, a registry.Agent) (limits []budget.Limit, err error) {
	if err := j.h.mayActFor(ctx, a, j.q.OnBehalfOf); err != nil {
		return nil, err
	}
	if j.path, err = j.h.path(ctx, a, j.q.Pool); err != nil {
		return nil, err
	}
	limits = limitsOf(j.path)
	return limits, checkUnits(limits, j.q.Actual)
}

func (j *chargeJob) pools() []string { return poolNames(j.path) }

func (j *chargeJob) answer() (worker.Answer, error) {
	if j.pending.Err != nil {
		return worker.Answer{}, j.pending.Err
	}
	d := &j.pending.Decision
	a := events.ChargeAnswer{Outcome: string(d.Outcome), Charged: d.Charged, Pools: rows(d.Pools), PoolMissing: d.PoolMissing, Labels: j.q.Labels}
	if d.Denial != nil {
		a.Denial = denial(d.Denial)
	}
	return worker.Answer{Body: a.Append(make([]byte, 0, answerBytes)), Replayed: d.Replayed, Denied: reason(d)}, nil
}
