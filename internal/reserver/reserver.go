package reserver

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"tallystick/internal/registry"
	"tallystick/internal/worker"
	"tallystick/pkg/events"
	"tallystick/pkg/redisx"
)

// Registry is what the reserver asks about structure and identity.
type Registry interface {
	Agent(ctx context.Context, org, id string) (registry.Agent, error)
	// Path is the named pool first, its root last.
	Path(ctx context.Context, org, pool string) ([]registry.Pool, error)
	// Reload reads a pool afresh.
	Reload(ctx context.Context, org, pool string) error
	// Manages reports whether an agent may spend on a principal's behalf.
	Manages(ctx context.Context, org, principal, agent string) (bool, error)
}

// Config of a Reserver. Worker's role-specific fields are filled in by New.
type Config struct {
	Worker   worker.Config
	Store    *redisx.Store
	Registry Registry
	Now      func() time.Time // default time.Now; only ages of commands come from it
	Log      zerolog.Logger
}

// Validate reports everything that is missing.
func (c Config) Validate() error {
	var errs []error
	if c.Store == nil {
		errs = append(errs, errors.New("reserver: Store is missing"))
	}
	if c.Registry == nil {
		errs = append(errs, errors.New("reserver: Registry is missing"))
	}
	return errors.Join(errs...)
}

// Reserver serves its verbs until it is stopped.
type Reserver struct{ worker *worker.Worker }

// New makes a Reserver; Run starts it.
func New(cfg Config) (*Reserver, error) {
	h, err := NewHandler(cfg)
	if err != nil {
		return nil, err
	}
	w := cfg.Worker
	w.Name, w.Handler = "reserver", h
	w.Verbs = []string{events.VerbReserve, events.VerbExtend, events.VerbCharge}
	w.DirectVerbs = []string{events.VerbBalance, events.VerbReservation, events.VerbWhoami}
	if w.Consumer == "" {
		w.Consumer = events.ConsumerReserver
	}
	run, err := worker.New(w)
	if err != nil {
		return nil, err
	}
	return &Reserver{run}, nil
}

// Run serves until ctx ends, then drains.
func (r *Reserver) Run(ctx context.Context) error { return r.worker.Run(ctx) }

// Started is closed once every verb is heard.
func (r *Reserver) Started() <-chan struct{} { return r.worker.Started() }

// Ready says why requests cannot be served, if so.
func (r *Reserver) Ready() error { return r.worker.Ready() }

// Collectors are the role's metrics.
func (r *Reserver) Collectors() []prometheus.Collector { return r.worker.Metrics().Collectors() }

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

// staleMax bounds how often a request is repeated with a fresh picture.
const staleMax = 3

// job is one request on its way.
type job interface {
	// queue adds the request's scripts to a batch. An error ends the request.
	queue(ctx context.Context, b *redisx.Batch) error
	// answer is made after the batch has run; stale scripts are an error that
	// wraps budget.ErrStalePolicy.
	answer() (worker.Answer, error)
	// pools are what to reload after staleness.
	pools() []string
}

// Handle decides a batch in one pipeline; only what was stale goes again.
func (h *Handler) Handle(ctx context.Context, reqs []*worker.Request) []worker.Answer {
	answers := make([]worker.Answer, len(reqs))
	jobs := make([]job, len(reqs))
	pending := make([]int, 0, len(reqs))
	for i, r := range reqs {
		j, e := h.job(r)
		if e != nil {
			answers[i] = worker.ErrorAnswer(e)
			continue
		}
		if dead, ok := h.tooOld(r, j); ok {
			answers[i] = dead
			continue
		}
		jobs[i] = j
		pending = append(pending, i)
	}
	for round := 0; len(pending) > 0; round++ {
		pending = h.round(ctx, reqs, jobs, answers, pending, round == staleMax)
	}
	return answers
}

// round runs pending jobs and gives those to be repeated.
func (h *Handler) round(ctx context.Context, reqs []*worker.Request, jobs []job, answers []worker.Answer, pending []int, last bool) (again []int) {
	b := h.cfg.Store.Batch()
	queued := pending[:0]
	for _, i := range pending {
		if err := jobs[i].queue(ctx, b); err != nil {
			answers[i] = worker.Failed(reqs[i], unreachable(err), h.cfg.Log)
			continue
		}
		queued = append(queued, i)
	}
	b.Run(ctx)
	for _, i := range queued {
		a, err := jobs[i].answer()
		switch {
		case err == nil:
			answers[i] = a
		case stale(err) && !last:
			again = append(again, i)
		default:
			answers[i] = worker.Failed(reqs[i], err, h.cfg.Log)
		}
	}
	return h.reload(ctx, reqs, jobs, answers, again)
}

// reload reads afresh what the jobs to be repeated were built from, and gives
// those for which that worked.
func (h *Handler) reload(ctx context.Context, reqs []*worker.Request, jobs []job, answers []worker.Answer, again []int) []int {
	if len(again) == 0 {
		return nil
	}
	type pool struct{ org, name string }
	done := make(map[pool]error)
	kept := again[:0]
	for _, i := range again {
		var failed error
		for _, name := range jobs[i].pools() {
			p := pool{reqs[i].Org, name}
			err, ok := done[p]
			if !ok {
				err = h.cfg.Registry.Reload(ctx, p.org, p.name)
				done[p] = err
			}
			failed = errors.Join(failed, err)
		}
		if failed != nil {
			answers[i] = worker.Failed(reqs[i], unreachable(failed), h.cfg.Log)
			continue
		}
		kept = append(kept, i)
	}
	return kept
}

// job decodes a request.
func (h *Handler) job(r *worker.Request) (job, *events.Error) {
	switch r.Verb {
	case events.VerbReserve:
		return h.reserve(r)
	case events.VerbExtend:
		return h.extend(r)
	case events.VerbCharge:
		return h.charge(r)
	case events.VerbBalance:
		return h.balance(r)
	case events.VerbReservation:
		return h.reservation(r)
	case events.VerbWhoami:
		return h.whoami(r)
	}
	return nil, events.NotFound("verb")
}
