package app

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"tallystick/internal/topology"
)

// Role is a worker's work: it blocks until ctx ends and drains then.
type Role interface {
	Run(ctx context.Context) error
}

// Wire makes a role from a connected shell.
type Wire func(ctx context.Context, s *Shell) (Role, error)

// Main runs one worker as a process and returns its exit code: 0 after a
// drain, 1 for a failure, 2 for a mistake on the command line.
func Main(worker string, wire Wire) int {
	QuietRedis()
	cfg, err := Load(worker, os.Args[1:], os.Getenv, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\nSee `%s --help`.\n", worker, err, worker)
		return 2
	}
	log := NewLogger(os.Stderr, cfg.LogLevel, cfg.LogFormat)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second signal finds the default handler and ends the process at once.
	context.AfterFunc(ctx, stop)
	if err := run(ctx, cfg, wire, log); err != nil {
		log.Error().Str(logWorker, worker).Err(err).Msg("stopped")
		return 1
	}
	return 0
}

func run(ctx context.Context, cfg Config, wire Wire, log zerolog.Logger) (err error) {
	if cfg.CredentialsPath == "" {
		return errors.New("no credentials: set --credentials or TALLY_CREDENTIALS to the worker's file.\nhint: `tallystick credentials --out DIR` writes one per worker")
	}
	creds, err := topology.LoadCredentials(cfg.CredentialsPath)
	if err != nil {
		return err
	}
	if creds.Worker != cfg.Worker {
		return fmt.Errorf("%s holds the credentials of %q, not of %q", cfg.CredentialsPath, creds.Worker, cfg.Worker)
	}
	s, err := Connect(ctx, cfg, creds, log)
	//lint:ignore SA5001 what a failed Connect has opened is closed too
	defer s.Close()
	if err != nil {
		return err
	}
	if err := RegisterProcess(s.Metrics); err != nil {
		return err
	}
	role, err := wire(ctx, s)
	if err != nil {
		return err
	}
	if err := s.Attach(role); err != nil {
		return err
	}
	if cfg.HTTPAddr != "" {
		srv, err := ServeHTTP(cfg.HTTPAddr, s.Health, s.Metrics)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, srv.Close()) }()
		s.Log.Info().Str(logAddr, srv.Addr()).Msg("serving /healthz, /readyz and /metrics")
	}
	s.Log.Info().Msg("running")
	return s.Run(ctx, role)
}

// Run runs a role until ctx ends and gives it time to drain.
func (s *Shell) Run(ctx context.Context, role Role) error {
	done := make(chan error, 1)
	go func() { done <- role.Run(ctx) }()
	select {
	case err := <-done:
		if ctx.Err() == nil && err == nil {
			err = errors.New("the role ended by itself")
		}
		return drained(ctx, err)
	case <-ctx.Done():
	}
	s.Health.Drain()
	s.Log.Info().Msg("draining")
	t := time.NewTimer(s.Config.DrainTimeout)
	defer t.Stop()
	select {
	case err := <-done:
		return drained(ctx, err)
	case <-t.C:
		return fmt.Errorf("not drained within %s", s.Config.DrainTimeout)
	}
}

// drained: the end of the context is how a role is stopped, not a failure.
func drained(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
