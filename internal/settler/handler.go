package settler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tallystick/internal/registry"
	"tallystick/internal/worker"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
	"tallystick/pkg/redisx"
)

// Handler decides requests.
type Handler struct{ cfg Config }

var _ worker.Handler = (*Handler)(nil)

// NewHandler makes the handler alone, for benchmarks and tests.
func NewHandler(cfg Config) (*Handler, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Handler{cfg}, nil
}

// job is one request on its way.
type job interface {
	// queue adds the request's script to a batch. An error ends the request.
	queue(ctx context.Context, b *redisx.Batch) error
	// answer is made after the batch has run.
	answer() (worker.Answer, error)
	// names is what the request calls the reservation.
	names() (reservation, key string)
}

// Handle decides a batch in one pipeline.
func (h *Handler) Handle(ctx context.Context, reqs []*worker.Request) []worker.Answer {
	answers := make([]worker.Answer, len(reqs))
	jobs := make([]job, len(reqs))
	b := h.cfg.Store.Batch()
	for i, r := range reqs {
		j, e := h.job(r)
		if e != nil {
			answers[i] = worker.ErrorAnswer(e)
			continue
		}
		if err := j.queue(ctx, b); err != nil {
			answers[i] = worker.Failed(r, err, h.cfg.Log)
			continue
		}
		jobs[i] = j
	}
	b.Run(ctx)
	for i, j := range jobs {
		if j == nil {
			continue
		}
		a, err := j.answer()
		switch {
		case err == nil:
			answers[i] = a
		case errors.Is(err, budget.ErrNotFound) && reqs[i].Door == worker.Durable:
			answers[i] = h.unmatched(reqs[i], j)
		default:
			answers[i] = worker.Failed(reqs[i], err, h.cfg.Log)
		}
	}
	return answers
}

// job decodes a request.
func (h *Handler) job(r *worker.Request) (job, *events.Error) {
	if e := events.CheckKey(r.Key); e != nil {
		return nil, e
	}
	switch r.Verb {
	case events.VerbSettle:
		return h.settle(r)
	case events.VerbRelease:
		return h.release(r)
	}
	return nil, events.NotFound("verb")
}

// A durable settle may overtake its reserve in the queue: it is tried again
// until unmatchedAfter, in steps that grow from retryMin to retryMax.
const (
	unmatchedAfter = 60 * time.Second
	retryMin       = 100 * time.Millisecond
	retryMax       = 5 * time.Second
	deadUnmatched  = "settle_unmatched"
)

// unmatched puts off a command whose reservation is not there, and gives up
// when it has waited long enough.
func (h *Handler) unmatched(r *worker.Request, j job) worker.Answer {
	now := h.cfg.Now()
	if left := unmatchedAfter - now.Sub(r.StoredAt); left > 0 {
		delay := retryMin << min(max(r.Deliveries-1, 0), 10)
		return worker.Answer{Retry: min(delay, retryMax, max(left, retryMin))}
	}
	a := worker.ErrorAnswer(events.NotFound("reservation"))
	reservation, key := j.names()
	a.Dead, a.EventType = deadUnmatched, events.EventSettleUnmatched
	a.Event = events.SettleUnmatched{
		EventHead: events.NewEventHead(events.EventSettleUnmatched, unmatchedID(r), r.Org, now),
		Agent:     r.Agent, Verb: r.Verb, Key: r.Key, Reservation: reservation, ReserveKey: key,
	}.Append(nil)
	return a
}

// unmatchedID is the same on every delivery of the command.
func unmatchedID(r *worker.Request) string {
	return redisx.ExecutionID(r.Org, r.Agent, r.Verb, r.Key) + "-" + fmt.Sprint(r.StoredAt.UnixMilli())
}

// caller is the agent that asks, and a guess at the limits of what it means.
// The registry only saves a round trip here: a settle must also work for an
// agent or pool that it does not know any more.
func (h *Handler) caller(ctx context.Context, r *worker.Request) (budget.Agent, []budget.Limit, error) {
	caller := budget.Agent{Org: r.Org, ID: r.Agent}
	a, err := h.cfg.Registry.Agent(ctx, r.Org, r.Agent)
	if errors.Is(err, registry.ErrNotFound) {
		return caller, nil, nil
	}
	if err != nil {
		return caller, nil, fmt.Errorf("%w: %w", budget.ErrUnavailable, err)
	}
	caller.Ancestors = a.Ancestors
	path, err := h.cfg.Registry.Path(ctx, r.Org, a.Pool)
	if err != nil {
		return caller, nil, nil //nolint:nilerr // a guess may fail
	}
	return caller, guess(path), nil
}

// guess lists limits as reserve does: pools as they come, units in byte order
// inside a pool.
func guess(path []registry.Pool) []budget.Limit {
	var limits []budget.Limit
	for i := range path {
		p, start := &path[i], len(limits)
		for _, l := range p.Limits {
			limits = append(limits, budget.Limit{LimitID: budget.LimitID{Pool: p.Name, Unit: l.Unit, Period: l.Period}, Rev: p.Rev})
		}
		slices.SortFunc(limits[start:], func(a, b budget.Limit) int {
			return cmp.Or(strings.Compare(a.Unit, b.Unit), strings.Compare(a.Period, b.Period))
		})
	}
	return limits
}

// execution is the reservation that a request names, by id or by the key of
// the agent's own reserve.
func execution(r *worker.Request, reservation, key *string) string {
	if key != nil {
		return redisx.ExecutionID(r.Org, r.Agent, events.VerbReserve, *key)
	}
	return text(reservation)
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
