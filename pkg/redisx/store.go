package redisx

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"tallystick/pkg/budget"
)

// PartitionsDefault is the number of partitions of a new installation.
const PartitionsDefault = 16

// Config of a Store.
type Config struct {
	// Client must not retry by itself (MaxRetries -1): a script whose reply
	// was lost has run.
	Client redis.UniversalClient
	// Partitions is fixed at install; 0 means PartitionsDefault.
	Partitions int
	// Timeout bounds one pipeline; 0 means two seconds.
	Timeout time.Duration
	// Clock is for tests: the Redis key that holds the scripts' time in µs.
	Clock string
}

// Store runs the scripts of one Redis.
type Store struct {
	client     redis.UniversalClient
	timeout    time.Duration
	scripts    map[string]*script
	partitions []partitionKeys
}

// New expands the scripts; it does not contact Redis.
func New(c Config) (*Store, error) {
	if c.Client == nil {
		return nil, errors.New("redisx: no client")
	}
	if c.Partitions == 0 {
		c.Partitions = PartitionsDefault
	}
	if c.Partitions < 1 || c.Partitions > 99 {
		return nil, fmt.Errorf("redisx: %d partitions; 1 to 99 are possible", c.Partitions)
	}
	if c.Timeout == 0 {
		c.Timeout = 2 * time.Second
	}
	scripts, err := loadScripts(c.Clock)
	if err != nil {
		return nil, fmt.Errorf("redisx: %w", err)
	}
	s := &Store{client: c.Client, timeout: c.Timeout, scripts: scripts}
	for p := range c.Partitions {
		s.partitions = append(s.partitions, newPartitionKeys(p))
	}
	return s, nil
}

// Partitions is the number of partitions.
func (s *Store) Partitions() int { return len(s.partitions) }

// Partition is the partition of an org.
func (s *Store) Partition(org string) int { return partitionOf(org, len(s.partitions)) }

func (s *Store) keysOf(org string) *partitionKeys { return &s.partitions[s.Partition(org)] }

// Load puts every script into Redis's cache, on each primary. A pipeline
// cannot fall back to EVAL, so this comes first; Batch.Run repeats it where a
// restart emptied the cache.
func (s *Store) Load(ctx context.Context) error {
	load := func(ctx context.Context, c *redis.Client) error {
		pipe := c.Pipeline()
		for _, script := range s.scripts {
			pipe.ScriptLoad(ctx, script.source)
		}
		_, err := pipe.Exec(ctx)
		return err
	}
	var err error
	switch c := s.client.(type) {
	case *redis.ClusterClient:
		err = c.ForEachMaster(ctx, load)
	case *redis.Client:
		err = load(ctx, c)
	default:
		for _, script := range s.scripts {
			err = errors.Join(err, c.ScriptLoad(ctx, script.source).Err())
		}
	}
	return redisError(err)
}

// Ping asks whether Redis answers.
func (s *Store) Ping(ctx context.Context) error { return redisError(s.client.Ping(ctx).Err()) }

// unavailablePrefixes begin the server's answers that say "not now": nothing
// was executed, or the outcome is unknown.
var unavailablePrefixes = [...]string{
	"OOM", "LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MISCONF", "NOREPLICAS", "BUSY",
	"MOVED", "ASK", "NOAUTH", "NOPERM", "NOSCRIPT", "UNKILLABLE",
}

// redisError classifies what go-redis returns. Whatever is not the server's
// answer (time-outs, cut connections, a full pool) leaves the outcome unknown.
func redisError(err error) error {
	if err == nil {
		return nil
	}
	var answer redis.Error
	if !errors.As(err, &answer) {
		return fmt.Errorf("%w: %w", budget.ErrUnavailable, err)
	}
	for _, prefix := range unavailablePrefixes {
		if strings.HasPrefix(answer.Error(), prefix) {
			return fmt.Errorf("%w: %w", budget.ErrUnavailable, err)
		}
	}
	return fmt.Errorf("redisx: %w", err)
}
