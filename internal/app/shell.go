package app

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"tallystick/internal/topology"
	"tallystick/pkg/redisx"
)

// Shell is what a role is wired from: its connections, one per account that
// its credentials name, and its surroundings.
type Shell struct {
	Config      Config
	Credentials topology.Credentials
	Log         zerolog.Logger
	Metrics     *prometheus.Registry
	Health      *Health

	// Broker, Agents, Admin, Auth and Audit are nil where the worker has no
	// user in that account.
	Broker, Agents, Admin, Auth, Audit *nats.Conn

	JetStream      jetstream.JetStream // on Broker
	AuditJetStream jetstream.JetStream // on Audit, where there is one

	Redis redis.UniversalClient
	Store *redisx.Store

	closers []func()
}

// OnClose runs a part's own closing before the connections end.
func (s *Shell) OnClose(f func()) { s.closers = append(s.closers, f) }

// Connect makes every connection that the credentials allow, and refuses a
// Redis that could lose money. Close the Shell also when it returns an error.
func Connect(ctx context.Context, cfg Config, creds topology.Credentials, log zerolog.Logger) (*Shell, error) {
	s := &Shell{Config: cfg, Credentials: creds, Log: log.With().Str(logWorker, cfg.Worker).Logger(), Metrics: prometheus.NewRegistry(), Health: NewHealth()}
	ctx, cancel := context.WithTimeout(ctx, cfg.StartTimeout)
	defer cancel()
	if err := s.connectRedis(ctx); err != nil {
		return s, err
	}
	if err := s.connectNATS(ctx); err != nil {
		return s, err
	}
	js, err := jetstream.New(s.Broker)
	if err != nil {
		return s, fmt.Errorf("jetstream: %w", err)
	}
	s.JetStream = js
	if s.Audit != nil {
		if s.AuditJetStream, err = jetstream.New(s.Audit); err != nil {
			return s, fmt.Errorf("jetstream: %w", err)
		}
	}
	return s, nil
}

// RegisterProcess adds what is measured once per process.
func RegisterProcess(r prometheus.Registerer) error {
	return errors.Join(
		r.Register(collectors.NewGoCollector()),
		r.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})),
		r.Register(collectors.NewBuildInfoCollector()))
}

func (s *Shell) connectRedis(ctx context.Context) error {
	opt, err := RedisOptions(s.Config.RedisURL, s.Credentials.Redis.User, s.Credentials.Redis.Password)
	if err != nil {
		return err
	}
	s.Redis = redis.NewClient(opt)
	if err := awaitRedis(ctx, s.Redis); err != nil {
		return fmt.Errorf("redis at %s: %w", opt.Addr, err)
	}
	if err := CheckRedis(ctx, s.Redis); err != nil {
		return err
	}
	if s.Store, err = redisx.New(redisx.Config{Client: s.Redis, Partitions: s.Config.Partitions}); err != nil {
		return err
	}
	s.Health.Add("redis", func(ctx context.Context) error { return s.Redis.Ping(ctx).Err() })
	return s.Store.Load(ctx)
}

func (s *Shell) connectNATS(ctx context.Context) error {
	accounts := []struct {
		name  string
		user  topology.User
		conn  **nats.Conn
		inbox string
	}{
		{"broker", s.Credentials.NATS.Broker, &s.Broker, "_INBOX." + s.Config.Worker},
		{"agents", s.Credentials.NATS.Agents, &s.Agents, ""},
		{"admin", s.Credentials.NATS.Admin, &s.Admin, ""},
		{"auth", s.Credentials.NATS.Auth, &s.Auth, ""},
		{"audit", s.Credentials.NATS.Audit, &s.Audit, ""},
	}
	for _, a := range accounts {
		if a.user.User == "" {
			continue
		}
		nc, err := dialNATS(ctx, natsDial{
			url: s.Config.NATSURL, worker: s.Config.Worker, account: a.name,
			user: a.user.User, password: a.user.Password,
			inbox: "_INBOX." + s.Config.Worker, noReconnectBuffer: a.name == "agents",
		}, s.Log)
		if err != nil {
			return err
		}
		*a.conn = nc
		s.Health.Add("nats_"+a.name, func(context.Context) error {
			if nc.IsConnected() {
				return nil
			}
			return errors.New(nc.Status().String())
		})
	}
	if s.Broker == nil {
		return fmt.Errorf("the credentials of %s name no user in account BROKER", s.Config.Worker)
	}
	return nil
}

// Close ends every connection. What was published before is flushed first:
// the roles flush what they must not lose themselves, this is for the rest.
func (s *Shell) Close() {
	for _, f := range slices.Backward(s.closers) {
		f()
	}
	for _, nc := range []*nats.Conn{s.Agents, s.Admin, s.Auth, s.Audit, s.Broker} {
		if nc != nil {
			nc.Close()
		}
	}
	if s.Redis != nil {
		if err := s.Redis.Close(); err != nil {
			s.Log.Debug().Err(err).Msg("redis: close")
		}
	}
}

// CalloutKeys are what a worker vouches for agents and operators with.
func (s *Shell) CalloutKeys() (topology.Callout, error) {
	if s.Credentials.Callout == nil {
		return topology.Callout{}, fmt.Errorf("the credentials of %s hold no callout key", s.Config.Worker)
	}
	return *s.Credentials.Callout, nil
}
