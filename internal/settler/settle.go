package settler

import (
	"context"

	"tallystick/internal/worker"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
	"tallystick/pkg/redisx"
)

// answerBytes is what an answer usually fits in.
const answerBytes = 256

// settleJob books what was really spent.
type settleJob struct {
	h       *Handler
	r       *worker.Request
	q       events.Settle
	pending *redisx.Pending
}

func (h *Handler) settle(r *worker.Request) (job, *events.Error) {
	q, e := events.DecodeSettle(r.Body)
	if e != nil {
		return nil, e
	}
	return &settleJob{h: h, r: r, q: q}, nil
}

func (j *settleJob) names() (reservation, key string) { return text(j.q.Reservation), text(j.q.Key) }

func (j *settleJob) queue(ctx context.Context, b *redisx.Batch) error {
	caller, guess, err := j.h.caller(ctx, j.r)
	if err != nil {
		return err
	}
	args := redisx.SettleArgs{
		Caller: caller, Operator: j.r.Door == worker.Operator, Execution: execution(j.r, j.q.Reservation, j.q.Key),
		Key: j.r.Key, Fingerprint: j.q.Fingerprint(), Actual: j.q.Actual, Status: events.StatusUnknown,
		Dispatched: j.q.Dispatched, Final: j.q.Final == nil || *j.q.Final, Usage: j.q.Usage, Guess: guess,
		By: j.r.By, Why: j.r.Why,
	}
	if j.q.Status != nil {
		args.Status = *j.q.Status
	}
	j.pending = b.Settle(args)
	return nil
}

func (j *settleJob) answer() (worker.Answer, error) {
	if j.pending.Err != nil {
		return worker.Answer{}, j.pending.Err
	}
	d := &j.pending.Decision
	a := events.SettleAnswer{
		Outcome: string(d.Outcome), Reservation: d.Reservation, Charged: d.Charged, Returned: d.Returned, Overrun: d.Overrun,
		CostUnknown: d.CostUnknown, PoolMissing: d.PoolMissing, Authorised: d.Authorised, Actual: d.Actual, Epsilon: d.Epsilon,
	}
	if d.Denial != nil {
		a.Reason = events.Reason(d.Denial.Reason)
	}
	return answer(d, a.Append(make([]byte, 0, answerBytes))), nil
}

func answer(d *budget.Decision, body []byte) worker.Answer {
	a := worker.Answer{Body: body, Replayed: d.Replayed}
	if d.Denial != nil {
		a.Denied = events.Reason(d.Denial.Reason)
	}
	return a
}

// releaseJob gives a reservation back.
type releaseJob struct {
	h       *Handler
	r       *worker.Request
	q       events.Release
	pending *redisx.Pending
}

func (h *Handler) release(r *worker.Request) (job, *events.Error) {
	q, e := events.DecodeRelease(r.Body)
	if e != nil {
		return nil, e
	}
	return &releaseJob{h: h, r: r, q: q}, nil
}

func (j *releaseJob) names() (reservation, key string) { return text(j.q.Reservation), text(j.q.Key) }

func (j *releaseJob) queue(ctx context.Context, b *redisx.Batch) error {
	caller, guess, err := j.h.caller(ctx, j.r)
	if err != nil {
		return err
	}
	j.pending = b.Release(redisx.ReleaseArgs{
		Caller: caller, Operator: j.r.Door == worker.Operator, Execution: execution(j.r, j.q.Reservation, j.q.Key),
		Key: j.r.Key, Fingerprint: j.q.Fingerprint(), Reason: text(j.q.Reason), Guess: guess, ByKey: j.q.Key != nil,
		By: j.r.By, Why: j.r.Why,
	})
	return nil
}

func (j *releaseJob) answer() (worker.Answer, error) {
	if j.pending.Err != nil {
		return worker.Answer{}, j.pending.Err
	}
	d := &j.pending.Decision
	a := events.ReleaseAnswer{Outcome: string(d.Outcome), Reservation: d.Reservation, Returned: d.Returned, PoolMissing: d.PoolMissing}
	if d.Denial != nil {
		a.Reason = events.Reason(d.Denial.Reason)
	}
	return answer(d, a.Append(make([]byte, 0, answerBytes))), nil
}
