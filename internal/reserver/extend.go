package reserver

import (
	"context"
	"time"

	"tallystick/internal/registry"
	"tallystick/internal/worker"
	"tallystick/pkg/events"
	"tallystick/pkg/redisx"
)

// extendJob gives a reservation more time, more money, or both.
type extendJob struct {
	h       *Handler
	r       *worker.Request
	q       events.Extend
	path    []registry.Pool
	pending *redisx.Pending
}

func (h *Handler) extend(r *worker.Request) (job, *events.Error) {
	q, e := events.DecodeExtend(r.Body)
	if e != nil {
		return nil, e
	}
	if e := events.CheckKey(r.Key); e != nil {
		return nil, e
	}
	return &extendJob{h: h, r: r, q: q}, nil
}

func (j *extendJob) queue(ctx context.Context, b *redisx.Batch) error {
	a, caller, err := j.h.caller(ctx, j.r.Org, j.r.Agent)
	if err != nil {
		return err
	}
	// Only a guess at the keys: the script corrects it from the record.
	if j.path, err = j.h.path(ctx, a, nil); err != nil {
		return err
	}
	args := redisx.ExtendArgs{
		Caller: caller, Execution: text(j.q.Reservation), Key: j.r.Key, Fingerprint: j.q.Fingerprint(),
		Add: j.q.Add, NotAfter: j.r.Deadline, Guess: limitsOf(j.path),
	}
	if j.q.Key != nil {
		args.Execution = redisx.ExecutionID(j.r.Org, j.r.Agent, events.VerbReserve, *j.q.Key)
	}
	if j.q.TTLMS != nil {
		args.TTL = time.Duration(*j.q.TTLMS) * time.Millisecond
	}
	j.pending = b.Extend(args)
	return nil
}

func (j *extendJob) pools() []string { return poolNames(j.path) }

func (j *extendJob) answer() (worker.Answer, error) {
	if j.pending.Err != nil {
		return worker.Answer{}, j.pending.Err
	}
	return allowedOrDenied(&j.pending.Decision, nil), nil
}
