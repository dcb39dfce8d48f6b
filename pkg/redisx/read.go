package redisx

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"tallystick/pkg/budget"
)

// Record adds the reading of an execution record to the batch.
func (b *Batch) Record(org, execution string) *PendingRecord {
	return b.RecordIn(b.store.Partition(org), execution)
}

// RecordIn is Record where only the partition is known.
func (b *Batch) RecordIn(partition int, execution string) *PendingRecord {
	p := &PendingRecord{}
	b.reads = append(b.reads, readCall{p, b.store.partitions[partition].record(execution)})
	return p
}

type readCall struct {
	*PendingRecord
	key string
}

// read fetches the records of a batch in one pipeline of GETs.
func (b *Batch) read(ctx context.Context) {
	pipe := b.store.client.Pipeline()
	sent := make([]*redis.StringCmd, len(b.reads))
	for i, r := range b.reads {
		sent[i] = pipe.Get(ctx, r.key)
	}
	_, _ = pipe.Exec(ctx) // each command carries its own error
	for i, r := range b.reads {
		text, err := sent[i].Result()
		if errors.Is(err, redis.Nil) {
			r.Err = budget.ErrNotFound
		} else if err != nil {
			r.Err = redisError(err)
		} else {
			r.Record, r.Err = ParseRecord(text)
		}
	}
}

// Live lists the executions an agent holds, in byte order.
func (s *Store) Live(ctx context.Context, org, agent string) ([]string, error) {
	ids, err := s.client.SMembers(ctx, s.keysOf(org).live(org, agent)).Result()
	if err != nil {
		return nil, redisError(err)
	}
	slices.Sort(ids)
	return ids, nil
}

// Now is Redis's clock.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	t, err := s.client.Time(ctx).Result()
	return t.UTC(), redisError(err)
}

// Epoch is the partition's epoch, "" where it has none.
func (s *Store) Epoch(ctx context.Context, partition int) (string, error) {
	epoch, err := s.client.Get(ctx, s.partitions[partition].epoch).Result()
	if errors.Is(err, redis.Nil) {
		return "", nil
	}
	return epoch, redisError(err)
}

// SetEpoch writes the epoch of a new partition, or of one that was rebuilt.
func (s *Store) SetEpoch(ctx context.Context, partition int, epoch string) error {
	return redisError(s.client.Set(ctx, s.partitions[partition].epoch, epoch, 0).Err())
}

// Revoked lists the revoked agents of a partition.
func (s *Store) Revoked(ctx context.Context, partition int) (map[string]string, error) {
	all, err := s.client.HGetAll(ctx, s.partitions[partition].revoked).Result()
	if err != nil {
		return nil, redisError(err)
	}
	delete(all, "fence")
	return all, nil
}
