package registrar

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tallystick/internal/registry"
	"tallystick/internal/topology"
	"tallystick/internal/worker"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
	"tallystick/pkg/redisx"
)

// inFlight is how many agents are served at once, each on its own: a revoke
// that waits for releases keeps nobody else waiting.
const inFlight = 32

// Door serves agents: register and revoke, at the direct door.
type Door struct{ worker *worker.Worker }

// NewDoor makes the agents' door of a Registrar; Run starts it.
func (r *Registrar) NewDoor(cfg worker.Config) (*Door, error) {
	cfg.Name, cfg.Handler, cfg.DirectVerbs = topology.Registrar, r, []string{events.VerbRegister, events.VerbRevoke}
	cfg.BatchMax, cfg.InFlight, cfg.HandleTimeout = 1, inFlight, AdminTimeout
	w, err := worker.New(cfg)
	if err != nil {
		return nil, err
	}
	return &Door{w}, nil
}

// Run serves until ctx ends, then drains.
func (d *Door) Run(ctx context.Context) error { return d.worker.Run(ctx) }

// Started is closed once both verbs are heard.
func (d *Door) Started() <-chan struct{} { return d.worker.Started() }

// Ready says why requests cannot be served, if so.
func (d *Door) Ready() error { return d.worker.Ready() }

// Collectors are the door's metrics.
func (d *Door) Collectors() []prometheus.Collector { return d.worker.Metrics().Collectors() }

// Handle decides requests of agents.
func (r *Registrar) Handle(ctx context.Context, reqs []*worker.Request) []worker.Answer {
	answers := make([]worker.Answer, len(reqs))
	for i, req := range reqs {
		a, err := r.serve(ctx, req)
		if err != nil {
			a = worker.Failed(req, answerable(err), r.cfg.Log)
		}
		answers[i] = a
	}
	return answers
}

func (r *Registrar) serve(ctx context.Context, req *worker.Request) (worker.Answer, error) {
	caller, _, err := r.cfg.Directory.Agent(ctx, req.Org, req.Agent)
	if errors.Is(err, registry.ErrNotFound) {
		return worker.Answer{}, events.NotFound("agent")
	}
	if err != nil {
		return worker.Answer{}, err
	}
	if req.Verb == events.VerbRevoke {
		return r.revokeOwn(ctx, req, caller)
	}
	return r.registerChild(ctx, req, caller)
}

// registerChild makes a child of the caller. What it may ask for is a name, a
// budget, a time to live and a purpose; who it is follows from the caller.
func (r *Registrar) registerChild(ctx context.Context, req *worker.Request, caller registry.Agent) (worker.Answer, error) {
	q, refused := events.DecodeRegister(req.Body)
	if refused == nil {
		refused = events.CheckKey(req.Key)
	}
	if refused != nil {
		return worker.Answer{}, refused
	}
	n := newborn{
		org: req.Org, name: q.Name, parent: &caller, pool: caller.Pool, by: caller.ID, fingerprint: q.Fingerprint(),
		execution: redisx.ExecutionID(req.Org, req.Agent, events.VerbRegister, req.Key),
	}
	if q.Purpose != nil {
		n.purpose = *q.Purpose
	}
	if q.TTLMS != nil {
		n.ttl = time.Duration(*q.TTLMS) * time.Millisecond
	}
	if q.Budget != nil {
		n.caps = budget.Amounts(q.Budget.Caps)
	}
	child, token, replayed, err := r.register(ctx, n)
	if errors.Is(err, redisx.ErrRevoked) {
		answer := events.RegisterAnswer{Outcome: events.OutcomeDenied, Reason: events.ReasonRevoked}
		return worker.Answer{Body: answer.Append(nil), Denied: events.ReasonRevoked}, nil
	}
	if err != nil {
		return worker.Answer{}, err
	}
	answer := events.RegisterAnswer{
		Outcome: events.OutcomeRegistered, Agent: child.ID, Org: child.Org, Name: child.Name, Token: token, Parent: child.Parent,
		Root: child.Root, Depth: child.Depth, Pool: child.Pool,
	}
	return worker.Answer{Body: answer.Append(nil), Replayed: replayed}, nil
}

// revokeOwn ends the caller or one of its descendants; anybody else does not
// exist for it.
func (r *Registrar) revokeOwn(ctx context.Context, req *worker.Request, caller registry.Agent) (worker.Answer, error) {
	q, refused := events.DecodeRevoke(req.Body)
	if refused == nil {
		refused = events.CheckKey(req.Key)
	}
	if refused != nil {
		return worker.Answer{}, refused
	}
	target, _, err := r.cfg.Directory.Agent(ctx, req.Org, q.Agent)
	if err != nil && !errors.Is(err, registry.ErrNotFound) {
		return worker.Answer{}, err
	}
	if err != nil || target.ID != caller.ID && !slices.Contains(target.Ancestors, caller.ID) {
		return worker.Answer{}, events.NotFound("agent")
	}
	n, err := r.revoke(ctx, target, q.Holds, redisx.RevokeArgs{By: caller.ID})
	if err != nil {
		return worker.Answer{}, err
	}
	return worker.Answer{Body: events.RevokeAnswer{Outcome: events.OutcomeRevoked, Agents: n}.Append(nil)}, nil
}
