package allinone

import (
	"context"
	"path/filepath"
	"slices"

	"tallystick/internal/app"
	"tallystick/internal/topology"
)

// servers starts Redis and NATS with one set of fresh credentials, which live
// as long as this process. On disk stay their hashes, and one secret: the
// administrator of the private Redis, with which a server that was left behind
// is told to end.
func (s *System) servers(ctx context.Context) (topology.Set, error) {
	if s.cfg.Partitions == 0 {
		s.cfg.Partitions = app.DefaultPartitions
	}
	s.address.AdminToken = topology.NewToken()
	set, err := topology.Generate(topology.TokenHash(s.address.AdminToken))
	if err != nil {
		return nil, err
	}
	if err := s.startRedis(ctx, set); err != nil {
		return nil, err
	}
	n, err := StartNATS(NATSConfig{Dir: filepath.Join(s.cfg.DataDir, "nats"), Addr: s.cfg.NATSAddr, Set: set, Log: s.log})
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, n.Close)
	s.address.NATSURL = n.URL
	for _, m := range roles() {
		if slices.Contains(s.cfg.Held, m.worker) {
			s.held = append(s.held, m)
		} else {
			s.members = append(s.members, m)
		}
	}
	s.set = set
	return set, n.Setup(ctx, 1)
}

func (s *System) startRedis(ctx context.Context, set topology.Set) error {
	if s.cfg.RedisURL != "" {
		// A Redis of somebody else knows none of our users: the address says
		// who we are there.
		for worker, c := range set {
			c.Redis = topology.User{}
			set[worker] = c
		}
		s.address.RedisURL, s.workersRedis = s.cfg.RedisURL, s.cfg.RedisURL
		return nil
	}
	r, err := StartRedis(ctx, RedisConfig{Dir: filepath.Join(s.cfg.DataDir, "redis"), Set: set, Log: s.log})
	if err != nil {
		return err
	}
	s.closers = append(s.closers, r.Close)
	s.address.RedisURL, s.workersRedis = r.URL, r.SocketURL
	if r.SocketURL == "" {
		s.workersRedis = r.URL
	}
	s.redisGone = r.Exited()
	return nil
}
