package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// observed is a role that tells how it is.
type observed interface{ Ready() error }

// measured is a role that measures itself.
type measured interface{ Collectors() []prometheus.Collector }

// Attach adds what a role tells about itself to probes and metrics.
func (s *Shell) Attach(role Role) error {
	if r, ok := role.(observed); ok {
		s.Health.Add(s.Config.Worker, func(context.Context) error { return r.Ready() })
	}
	if r, ok := role.(measured); ok {
		var errs []error
		for _, c := range r.Collectors() {
			errs = append(errs, s.Metrics.Register(c))
		}
		if err := errors.Join(errs...); err != nil {
			return fmt.Errorf("metrics of %s: %w", s.Config.Worker, err)
		}
	}
	return nil
}

// Together runs several parts as one role, such as a worker and the verbs that
// it serves to operators. The first to fail stops the others.
type Together []Role

// Run runs all parts until ctx ends, or one ends.
func (t Together) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, len(t))
	for _, part := range t {
		go func() { done <- part.Run(ctx) }()
	}
	var errs []error
	for range t {
		errs = append(errs, <-done)
		cancel()
	}
	return errors.Join(errs...)
}

// Ready is what the parts say.
func (t Together) Ready() error {
	var errs []error
	for _, part := range t {
		if r, ok := part.(observed); ok {
			errs = append(errs, r.Ready())
		}
	}
	return errors.Join(errs...)
}

// Collectors are those of all parts.
func (t Together) Collectors() []prometheus.Collector {
	var all []prometheus.Collector
	for _, part := range t {
		if r, ok := part.(measured); ok {
			all = append(all, r.Collectors()...)
		}
	}
	return all
}
