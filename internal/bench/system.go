package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"tallystick/internal/allinone"
	"tallystick/pkg/budget"
	"tallystick/pkg/client"
	"tallystick/pkg/events"
	"tallystick/pkg/redisx"
)

// system is everything that `tallystick up` runs, in this process.
type system struct {
	up       *allinone.System
	address  allinone.Address
	operator *client.Operator
	redis    *redis.Client // with every right, to look from outside
	store    *redisx.Store
	orgs     []string
	loads    uint32
}

func startSystem(ctx context.Context, dir string, held ...string) (*system, error) {
	up, err := allinone.Start(ctx, allinone.UpConfig{
		DataDir: filepath.Clean(dir), NATSAddr: "127.0.0.1:0", Held: held, Log: zerolog.Nop(),
	})
	if err != nil {
		return nil, err
	}
	s := &system{up: up, address: up.Address()}
	if err := s.connect(); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

func (s *system) connect() error {
	opt, err := redis.ParseURL(s.address.RedisURL)
	if err != nil {
		return err
	}
	s.redis = redis.NewClient(opt)
	if s.store, err = redisx.New(redisx.Config{Client: s.redis}); err != nil {
		return err
	}
	s.operator, err = client.ConnectOperator(s.address.NATSURL, s.address.AdminToken)
	return err
}

func (s *system) stop() error {
	if s.operator != nil {
		s.operator.Close()
	}
	var err error
	if s.redis != nil {
		err = s.redis.Close()
	}
	return errors.Join(err, s.up.Stop())
}

// newOrg makes an org with one pool of one limit, and agents that share it.
// Each org has a partition of its own, as long as there are any.
func (s *system) newOrg(ctx context.Context, limit int64) (string, []loadAgent, error) {
	name := s.freeName()
	s.orgs = append(s.orgs, name)
	if _, err := s.operator.Do(ctx, events.AdminOrgCreate, "", map[string]any{"org": name}); err != nil {
		return "", nil, err
	}
	_, err := s.operator.Do(ctx, events.AdminPoolCreate, "", map[string]any{
		"org": name, "pool": benchPool, "limits": []map[string]any{{"unit": benchUnit, "cap": limit}},
	})
	if err != nil {
		return "", nil, err
	}
	agents := make([]loadAgent, connections)
	for i := range agents {
		body, err := s.operator.Do(ctx, events.AdminAgentRegister, "", map[string]any{
			"org": name, "name": fmt.Sprintf("load-%d", i), "pool": benchPool,
		})
		if err != nil {
			return "", nil, err
		}
		var a struct{ Agent, Token string }
		if err := json.Unmarshal(body, &a); err != nil {
			return "", nil, err
		}
		agents[i] = loadAgent{ID: a.Agent, Token: a.Token}
	}
	return name, agents, nil
}

func (s *system) freeName() string {
	taken := map[int]bool{}
	for _, org := range s.orgs {
		taken[s.store.Partition(org)] = true
	}
	for i := len(s.orgs); ; i++ {
		name := fmt.Sprintf("bench-%d", i)
		if len(s.orgs) >= s.store.Partitions() || !taken[s.store.Partition(name)] {
			return name
		}
	}
}

// written counts the entries that the scripts have written to the outboxes of
// our orgs since the beginning.
func (s *system) written(ctx context.Context) (int64, error) {
	outboxes := map[int]string{}
	for _, org := range s.orgs {
		c := s.store.ReserveCommand(redisx.ReserveArgs{Agent: budget.Agent{Org: org}})
		outboxes[s.store.Partition(org)] = c.Keys[6] // see lua/reserve.lua
	}
	var sum int64
	for _, key := range outboxes {
		x, err := s.redis.XInfoStream(ctx, key).Result()
		if err != nil {
			return 0, fmt.Errorf("%s: %w", key, err)
		}
		sum += x.EntriesAdded
	}
	return sum, nil
}

// backlog is how many entries are not on the ledger yet.
func (s *system) backlog(ctx context.Context) (behind int64, onLedger uint64, err error) {
	written, err := s.written(ctx)
	if err != nil {
		return 0, 0, err
	}
	onLedger, err = s.up.LedgerLast(ctx)
	return max(0, written-int64(onLedger)), onLedger, err //nolint:gosec // far below 2^63
}
