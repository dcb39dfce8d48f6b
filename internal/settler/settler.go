package settler

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"tallystick/internal/registry"
	"tallystick/internal/worker"
	"tallystick/pkg/events"
	"tallystick/pkg/redisx"
)

// Registry is what the settler asks about structure and identity.
type Registry interface {
	Agent(ctx context.Context, org, id string) (registry.Agent, error)
	// Path is the named pool first, its root last.
	Path(ctx context.Context, org, pool string) ([]registry.Pool, error)
}

// Config of a Settler. The role-specific fields of Worker and Admin are filled
// in by New; without a connection in Admin, operators are not served.
type Config struct {
	Worker   worker.Config
	Admin    worker.AdminConfig
	Store    *redisx.Store
	Registry Registry
	Now      func() time.Time // default time.Now; only ages of commands come from it
	Log      zerolog.Logger
}

// Validate reports everything that is missing.
func (c Config) Validate() error {
	var errs []error
	if c.Store == nil {
		errs = append(errs, errors.New("settler: Store is missing"))
	}
	if c.Registry == nil {
		errs = append(errs, errors.New("settler: Registry is missing"))
	}
	return errors.Join(errs...)
}

// Settler serves its verbs until it is stopped.
type Settler struct {
	worker  *worker.Worker
	admin   *worker.Admin // nil where operators are not served
	started chan struct{}
}

// New makes a Settler; Run starts it.
func New(cfg Config) (*Settler, error) {
	h, err := NewHandler(cfg)
	if err != nil {
		return nil, err
	}
	w := cfg.Worker
	w.Name, w.Handler = "settler", h
	w.Verbs = []string{events.VerbSettle, events.VerbRelease}
	w.PurgeConsumers = []string{events.ConsumerReserver, events.ConsumerSettler}
	if w.Consumer == "" {
		w.Consumer = events.ConsumerSettler
	}
	s := &Settler{started: make(chan struct{})}
	if s.worker, err = worker.New(w); err != nil {
		return nil, err
	}
	if cfg.Admin.Conn != nil {
		a := cfg.Admin
		a.Name, a.Verbs = "settler", h.AdminVerbs()
		if s.admin, err = worker.NewAdmin(a); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Run serves until ctx ends, then drains.
func (s *Settler) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var parts sync.WaitGroup
	var workerErr, adminErr error
	parts.Go(func() {
		defer cancel() // half a settler is none
		workerErr = s.worker.Run(ctx)
	})
	if s.admin != nil {
		parts.Go(func() {
			defer cancel()
			adminErr = s.admin.Run(ctx)
		})
	}
	parts.Go(func() {
		if await(ctx, s.worker.Started()) && (s.admin == nil || await(ctx, s.admin.Started())) {
			close(s.started)
		}
	})
	parts.Wait()
	return errors.Join(workerErr, adminErr)
}

func await(ctx context.Context, ready <-chan struct{}) bool {
	select {
	case <-ready:
		return true
	case <-ctx.Done():
		return false
	}
}

// Started is closed once every verb is heard.
func (s *Settler) Started() <-chan struct{} { return s.started }

// Ready says why requests cannot be served, if so.
func (s *Settler) Ready() error {
	select {
	case <-s.started:
		return s.worker.Ready()
	default:
		return errors.New("settler: starting")
	}
}

// Collectors are the role's metrics.
func (s *Settler) Collectors() []prometheus.Collector { return s.worker.Metrics().Collectors() }
