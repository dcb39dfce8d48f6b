package app

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// RedisOptions turns a URL and a worker's own user into client options.
//
// Retries are off: go-redis would run a script again whose answer was lost,
// and only the caller knows whether that is wanted. Deadlines of contexts
// count, and nothing is sent that Redis 7.0 does not know.
func RedisOptions(url, user, password string) (*redis.Options, error) {
	opt, err := redis.ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("redis address: %w", err)
	}
	if user != "" {
		opt.Username, opt.Password = user, password
	}
	opt.MaxRetries = -1
	opt.ContextTimeoutEnabled = true
	opt.DialTimeout = 2 * time.Second
	opt.DialerRetries = 1
	opt.ReadTimeout = 2 * time.Second
	opt.WriteTimeout = 2 * time.Second
	opt.DisableIdentity = true
	opt.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	opt.PoolSize = 16
	opt.PipelinePoolSize = -1
	return opt, nil
}

// CheckRedis refuses a server that could lose money: one that evicts keys, or
// one too old for the scripts.
func CheckRedis(ctx context.Context, c redis.UniversalClient) error {
	info, err := c.Info(ctx, "server").Result()
	if err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	if v := infoField(info, "redis_version"); !atLeast7(v) {
		return fmt.Errorf("redis %s is too old: the scripts need Redis 7.0 or newer, or Valkey", v)
	}
	policy, err := c.ConfigGet(ctx, "maxmemory-policy").Result()
	if err != nil {
		// Managed Redis forbids CONFIG; INFO memory tells the same.
		mem, memErr := c.Info(ctx, "memory").Result()
		if memErr != nil {
			return fmt.Errorf("redis: neither CONFIG GET nor INFO memory is allowed: %w", errors.Join(err, memErr))
		}
		policy = map[string]string{"maxmemory-policy": infoField(mem, "maxmemory_policy")}
	}
	if p := policy["maxmemory-policy"]; p != "noeviction" {
		return fmt.Errorf("redis has maxmemory-policy %q: it may evict holds and idempotency records, so money would be lost or spent twice.\nhint: redis-cli CONFIG SET maxmemory-policy noeviction, and the same in redis.conf", p)
	}
	return nil
}

func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			return v
		}
	}
	return ""
}

func atLeast7(version string) bool {
	major, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(major)
	return err == nil && n >= 7
}

// awaitRedis waits for a server that is still starting or loading its AOF.
func awaitRedis(ctx context.Context, c redis.UniversalClient) error {
	retry := time.NewTicker(200 * time.Millisecond)
	defer retry.Stop()
	for {
		err := c.Ping(ctx).Err()
		if err == nil {
			return nil
		}
		if s := err.Error(); strings.HasPrefix(s, "WRONGPASS") || strings.HasPrefix(s, "NOAUTH") || strings.HasPrefix(s, "NOPERM") {
			return fmt.Errorf("%w.\nhint: load the users.acl of the same `tallystick credentials` run", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w.\nhint: is the server running, and reachable from here?", err)
		case <-retry.C:
		}
	}
}

// QuietRedis stops go-redis from writing lines of its own to stderr: what
// fails comes back as an error, and is logged once by whoever gets it.
func QuietRedis() { logging.Disable() }
