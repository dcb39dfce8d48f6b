package bench

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/rs/zerolog"

	"tallystick/internal/allinone"
	"tallystick/internal/topology"
	"tallystick/pkg/budget"
	"tallystick/pkg/redisx"
)

// What every load reserves.
const (
	benchUnit   = "usd_microcents"
	benchPool   = "research"
	benchAmount = 250_000
	benchSpent  = 180_000 // what a settle books of it
	unlimited   = 9_007_199_254_740_991
)

// redisServer is a private Redis with the settings that `tallystick up` gives
// its own.
type redisServer struct {
	server *allinone.Redis
	client *redis.Client
	store  *redisx.Store
	user   *url.Userinfo
	socket string
	addr   string
	agent  budget.Agent
	limits []budget.Limit
	serial int
}

func startRedis(ctx context.Context, dir string) (*redisServer, error) {
	set, err := topology.Generate(topology.TokenHash(topology.NewToken()))
	if err != nil {
		return nil, err
	}
	server, err := allinone.StartRedis(ctx, allinone.RedisConfig{Dir: filepath.Join(dir, "redis"), Set: set, Log: zerolog.Nop()})
	if err != nil {
		return nil, err
	}
	r := &redisServer{server: server, socket: strings.TrimPrefix(server.SocketURL, "unix://")}
	u, err := url.Parse(server.URL)
	if err == nil && r.socket == "" {
		err = errors.New("the directory's path is too long for a unix socket")
	}
	if err != nil {
		return nil, errors.Join(err, server.Close())
	}
	r.user, r.addr = u.User, u.Host
	r.client = redis.NewClient(r.options("unix", r.socket))
	r.agent = budget.Agent{Org: "acme", ID: uuid.Must(uuid.NewV7()).String()}
	r.limits = []budget.Limit{{LimitID: budget.LimitID{Pool: benchPool, Unit: benchUnit, Period: "none"}, Rev: 1}}
	if r.store, err = redisx.New(redisx.Config{Client: r.client, Timeout: time.Minute}); err == nil {
		err = r.reset(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

// options are those of the workers: no retries, bounded by the context.
func (r *redisServer) options(network, addr string) *redis.Options {
	password, _ := r.user.Password()
	return &redis.Options{
		Network: network, Addr: addr, Username: r.user.Username(), Password: password,
		MaxRetries: -1, ContextTimeoutEnabled: true, DisableIdentity: true, Protocol: 2,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

func (r *redisServer) close() error { return errors.Join(r.client.Close(), r.server.Close()) }

// reset empties the server and makes one pool with one limit.
func (r *redisServer) reset(ctx context.Context) error {
	if err := r.client.FlushAll(ctx).Err(); err != nil {
		return err
	}
	if err := r.store.Load(ctx); err != nil {
		return err
	}
	if err := r.store.SetEpoch(ctx, r.store.Partition(r.agent.Org), "1"); err != nil {
		return err
	}
	_, err := r.store.ApplyPolicy(ctx, redisx.PolicyArgs{Org: r.agent.Org, Pool: benchPool, Rev: 1, Limits: []redisx.PolicyLimit{{
		Unit: benchUnit, Period: "none", Cap: unlimited, OnOverrun: "reject", State: "open", LateWindowMS: time.Hour.Milliseconds(),
	}}})
	return err
}

// restoreAgents writes agents as a rebuild does, into the partition of the org.
func (r *redisServer) restoreAgents(ctx context.Context, agents []redisx.Registered, now time.Time) error {
	const fence = "bench"
	p := r.store.Partition(r.agent.Org)
	if err := r.store.Fence(ctx, p, fence); err != nil {
		return err
	}
	restore := r.store.Restore(p, fence)
	if err := restore.Agents(ctx, agents, now); err != nil {
		return err
	}
	return restore.Open(ctx, "1")
}

// reserve is one real reserve of one limit, as the reserver builds it.
func (r *redisServer) reserve(key string, ttl time.Duration) redisx.ReserveArgs {
	return redisx.ReserveArgs{
		Agent: r.agent, Execution: redisx.ExecutionID(r.agent.Org, r.agent.ID, "reserve", key),
		Fingerprint: strings.Repeat("5a", 16), Amounts: budget.Amounts{benchUnit: benchAmount}, TTL: ttl,
		Path: r.limits, Extra: redisx.Extra{Key: key},
	}
}

func (r *redisServer) nextKey() string {
	r.serial++
	return fmt.Sprintf("%08x-%04d-%04d-%016d", r.serial>>32, 0, 0, r.serial)
}

// command is that reserve spelled out.
func (r *redisServer) command(key string) redisx.Command {
	return r.store.ReserveCommand(r.reserve(key, budget.TTLDefault))
}

// outboxKey is the seventh key of reserve.lua.
func (r *redisServer) outboxKey() string { return r.command("-").Keys[6] }

func (r *redisServer) dropOutbox(ctx context.Context) error {
	return r.client.XTrimMaxLen(ctx, r.outboxKey(), 0).Err()
}

// redisCPU is what a Redis has used so far, all its threads together.
func redisCPU(ctx context.Context, c *redis.Client) (time.Duration, error) {
	return infoSum(ctx, c, "cpu", "used_cpu_sys", "used_cpu_user")
}

func infoSum(ctx context.Context, c *redis.Client, section string, names ...string) (time.Duration, error) {
	var sum float64
	for _, name := range names {
		text, err := info(ctx, c, section, name)
		if err != nil {
			return 0, err
		}
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return 0, fmt.Errorf("INFO %s: %s: %w", section, name, err)
		}
		sum += v
	}
	return time.Duration(sum * float64(time.Second)), nil
}

// info is one line of INFO.
func info(ctx context.Context, c *redis.Client, section, name string) (string, error) {
	text, err := c.Info(ctx, section).Result()
	if err != nil {
		return "", err
	}
	for line := range strings.SplitSeq(text, "\n") {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value), nil
		}
	}
	return "", fmt.Errorf("INFO %s has no %s", section, name)
}
