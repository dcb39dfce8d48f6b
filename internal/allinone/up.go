package allinone

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"tallystick/internal/app"
	"tallystick/internal/checkpoint"
	"tallystick/internal/topology"
)

// UpConfig says where the system lives.
type UpConfig struct {
	DataDir    string
	NATSAddr   string // for clients; port 0 picks a free one
	RedisURL   string // "" starts a private server
	HTTPAddr   string // "" serves no HTTP
	Partitions int    // 0: the default; fixed by the first start
	Log        zerolog.Logger
	// Held are workers to keep back until LaunchHeld: a benchmark measures
	// the doors without the ledger's share.
	Held []string
}

// Validate returns every problem at once.
func (c UpConfig) Validate() error {
	var errs []error
	if c.DataDir == "" {
		errs = append(errs, errors.New("no data directory"))
	}
	if c.NATSAddr == "" {
		errs = append(errs, errors.New("no NATS address"))
	}
	if c.Partitions < 0 {
		errs = append(errs, errors.New("partitions must not be negative"))
	}
	return errors.Join(errs...)
}

// Address is what DIR/up.json says: how to reach the running system.
type Address struct {
	NATSURL    string `json:"nats_url"`
	RedisURL   string `json:"redis_url"`
	HTTPURL    string `json:"http_url"`
	AdminToken string `json:"admin_token"`
	PID        int    `json:"pid"`
}

// Bounds of starting and stopping.
const (
	startTimeout = 25 * time.Second
	stepTimeout  = 5 * time.Second // of each step of a drain
	addressFile  = "up.json"
)

// member is one worker inside the process, with its own connections and
// rights, as when it runs apart.
type member struct {
	worker string
	wire   app.Wire
	shell  *app.Shell
	role   app.Role
	cancel context.CancelFunc
	done   chan struct{}
	err    error // after done
}

// System is everything, running.
type System struct {
	cfg     UpConfig
	log     zerolog.Logger
	address Address
	members []*member
	held    []*member
	set     topology.Set
	http    *app.HTTPServer
	health  *app.Health
	failed  chan error
	closers []func() error // stop what was started before the members, last first

	workersRedis string          // how workers reach Redis: its socket, if it has one
	redisGone    <-chan struct{} // closed when a private server has ended
}

// Start brings everything up and returns when all workers answer.
func Start(ctx context.Context, cfg UpConfig) (*System, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &System{cfg: cfg, log: cfg.Log, health: app.NewHealth(), failed: make(chan error, 16)}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

func (s *System) start(ctx context.Context) error {
	dir, err := filepath.Abs(s.cfg.DataDir)
	if err != nil {
		return err
	}
	s.cfg.DataDir = dir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	held, err := lock(dir)
	if err != nil {
		return err
	}
	s.closers = append(s.closers, held.Close)
	// Whatever it says is about an earlier start.
	if err := os.RemoveAll(filepath.Join(dir, addressFile)); err != nil {
		return err
	}
	s.closers = append(s.closers, func() error { return os.RemoveAll(filepath.Join(dir, addressFile)) })
	set, err := s.servers(ctx)
	if err != nil {
		return err
	}
	for _, m := range s.members {
		if err := s.launch(ctx, m, set); err != nil {
			return fmt.Errorf("%s: %w", m.worker, err)
		}
	}
	if err := s.serveHTTP(); err != nil {
		return err
	}
	if err := s.awaitReady(ctx); err != nil {
		return err
	}
	return s.announce()
}

// launch connects one worker with its own credentials and runs it.
func (s *System) launch(ctx context.Context, m *member, set topology.Set) error {
	cfg := app.Config{
		Worker: m.worker, NATSURL: s.address.NATSURL, RedisURL: s.workersRedis, DataDir: s.cfg.DataDir,
		LogLevel: "info", LogFormat: "auto", Partitions: s.cfg.Partitions,
		StartTimeout: startTimeout, DrainTimeout: stepTimeout,
	}
	if m.worker == topology.Reconciler {
		cfg.CheckpointKey, cfg.CheckpointDir = checkpoint.KeyIn(s.cfg.DataDir), filepath.Join(s.cfg.DataDir, "checkpoints")
		if err := checkpoint.Ensure(cfg.CheckpointKey); err != nil {
			return err
		}
	}
	if err := cfg.Validate(); err != nil {
		return err
	}
	var err error
	m.shell, err = app.Connect(ctx, cfg, set[m.worker], s.log)
	if err != nil {
		return err
	}
	if m.role, err = m.wire(ctx, m.shell); err != nil {
		return err
	}
	if err := m.shell.Attach(m.role); err != nil {
		return err
	}
	s.health.Add(m.worker, func(ctx context.Context) error {
		if bad := m.shell.Health.Ready(ctx); len(bad) > 0 {
			return fmt.Errorf("%v", bad)
		}
		return nil
	})
	// The worker outlives the start's context; Stop ends it.
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	m.cancel, m.done = cancel, make(chan struct{})
	go func() {
		defer close(m.done)
		m.err = m.shell.Run(run, m.role)
		if run.Err() == nil {
			s.failed <- fmt.Errorf("%s stopped: %w", m.worker, m.err)
		}
	}()
	return nil
}

func (s *System) serveHTTP() error {
	if s.cfg.HTTPAddr == "" {
		return nil
	}
	process := prometheus.NewRegistry()
	if err := app.RegisterProcess(process); err != nil {
		return err
	}
	all := prometheus.Gatherers{process}
	for _, m := range s.members {
		all = append(all, m.shell.Metrics)
	}
	srv, err := app.ServeHTTP(s.cfg.HTTPAddr, s.health, all)
	if err != nil {
		return err
	}
	s.http, s.address.HTTPURL = srv, "http://"+srv.Addr()
	return nil
}

// announce writes up.json in one step, so that nobody reads half of it.
func (s *System) announce() error {
	s.address.PID = os.Getpid()
	b, err := json.Marshal(s.address)
	if err != nil {
		return err
	}
	path := filepath.Join(s.cfg.DataDir, addressFile)
	if err := os.WriteFile(path+".new", append(b, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// Address says how to reach the system.
func (s *System) Address() Address { return s.address }

// Wait blocks until ctx ends, or returns what failed before.
func (s *System) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-s.failed:
		return err
	case <-s.redisGone:
		return errors.New("the redis-server child has ended; its log is in DIR/redis/redis.log")
	}
}

// drainOrder is how workers stop: first those that take in work, then those
// that make entries by themselves, and the scribe when the outboxes are empty.
func drainOrder() [][]string {
	return [][]string{{"reserver", "settler"}, {"reaper", "reconciler"}, {"registrar"}, {"scribe"}}
}

// Stop drains everything, in an order in which nobody loses what another
// still has for him.
func (s *System) Stop() error {
	s.health.Drain()
	var errs []error
	for _, group := range drainOrder() {
		if slices.Contains(group, "scribe") {
			errs = append(errs, s.emptyOutboxes())
		}
		errs = append(errs, s.stop(group))
	}
	for _, m := range s.members {
		if m.shell != nil {
			m.shell.Close()
		}
	}
	if s.http != nil {
		errs = append(errs, s.http.Close())
	}
	for _, closer := range slices.Backward(s.closers) {
		errs = append(errs, closer())
	}
	return errors.Join(errs...)
}

func (s *System) stop(group []string) error {
	var errs []error
	var stopping []*member
	for _, m := range s.members {
		if m.cancel != nil && slices.Contains(group, m.worker) {
			m.cancel()
			stopping = append(stopping, m)
		}
	}
	for _, m := range stopping {
		<-m.done
		if m.err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", m.worker, m.err))
		}
	}
	return errors.Join(errs...)
}
