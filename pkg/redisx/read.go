package redisx

import (
	"context"
	"errors"
	"fmt"
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
	p, k := &PendingRecord{}, &b.store.partitions[partition]
	b.reads = append(b.reads, readCall{p, k.record(execution), k.epoch})
	return p
}

type readCall struct {
	*PendingRecord
	key, epoch string
}

// read fetches the records of a batch in one pipeline of GETs. A record that
// is not there was never there, unless the epoch is gone too: then Redis was
// emptied, and nobody knows.
func (b *Batch) read(ctx context.Context) {
	pipe := b.store.client.Pipeline()
	sent, epochs := make([]*redis.StringCmd, len(b.reads)), make([]*redis.IntCmd, len(b.reads))
	for i, r := range b.reads {
		sent[i], epochs[i] = pipe.Get(ctx, r.key), pipe.Exists(ctx, r.epoch)
	}
	_, _ = pipe.Exec(ctx) // each command carries its own error
	for i, r := range b.reads {
		text, err := sent[i].Result()
		switch {
		case errors.Is(err, redis.Nil) && epochs[i].Err() != nil:
			r.Err = redisError(epochs[i].Err())
		case errors.Is(err, redis.Nil):
			r.Err = absent(epochs[i].Val())
		case err != nil:
			r.Err = redisError(err)
		default:
			r.Record, r.Err = ParseRecord(text)
		}
	}
}

func absent(epochs int64) error {
	if epochs == 0 {
		return fmt.Errorf("%w: emptied", budget.ErrUnavailable)
	}
	return budget.ErrNotFound
}

// Live lists the executions an agent holds, in byte order.
func (s *Store) Live(ctx context.Context, org, agent string) ([]string, error) {
	k := s.keysOf(org)
	ids, err := s.client.ZRange(ctx, k.live(org, agent), 0, -1).Result()
	if err != nil {
		return nil, redisError(err)
	}
	if len(ids) == 0 {
		epochs, err := s.client.Exists(ctx, k.epoch).Result()
		if err != nil {
			return nil, redisError(err)
		}
		if err := absent(epochs); !errors.Is(err, budget.ErrNotFound) {
			return nil, err
		}
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
