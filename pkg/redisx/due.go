package redisx

import (
	"context"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// Due lists, per partition, up to limit executions whose deadline has passed
// by Redis's clock, the oldest first.
func (s *Store) Due(ctx context.Context, limit int64) ([][]string, error) {
	now, err := s.client.Time(ctx).Result()
	if err != nil {
		return nil, redisError(err)
	}
	pipe := s.client.Pipeline()
	sent := make([]*redis.StringSliceCmd, len(s.partitions))
	upTo := &redis.ZRangeBy{Min: "-inf", Max: strconv.FormatInt(now.UnixMilli(), 10), Count: limit}
	for p := range s.partitions {
		sent[p] = pipe.ZRangeByScore(ctx, s.partitions[p].expiring, upTo)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, redisError(err)
	}
	out := make([][]string, len(sent))
	for p, cmd := range sent {
		out[p] = cmd.Val()
	}
	return out, nil
}
