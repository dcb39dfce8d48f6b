package redisx

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Restore writes a fenced partition anew. Each of its writes happens only while
// the fence is still the restore's own: one that stood still since it looked,
// and was overtaken by another rebuild, writes nothing more.
type Restore struct {
	store     *Store
	partition int
	keys      *partitionKeys
	fence     string
}

// ErrTakenOver: the fence is no longer that of this restore.
var ErrTakenOver = errors.New("redisx: another rebuild has taken the partition over")

// restoreTries is how often a write is tried again where something else of
// the fence's hash changed meanwhile.
const restoreTries = 10

// Restore begins to write a partition that was fenced with fence.
func (s *Store) Restore(partition int, fence string) *Restore {
	return &Restore{s, partition, &s.partitions[partition], fence}
}

// write queues what add says, and does it in one step with the look at the fence.
func (r *Restore) write(ctx context.Context, add func(pipe redis.Pipeliner)) error {
	err := error(redis.TxFailedErr)
	for try := 0; errors.Is(err, redis.TxFailedErr) && try < restoreTries; try++ {
		err = r.store.client.Watch(ctx, func(tx *redis.Tx) error {
			reason, err := tx.HGet(ctx, r.keys.revoked, fenceField).Result()
			if err != nil && !errors.Is(err, redis.Nil) {
				return err
			}
			if reason != r.fence {
				return ErrTakenOver
			}
			_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error { add(pipe); return nil })
			return err
		}, r.keys.revoked)
	}
	if errors.Is(err, ErrTakenOver) {
		return err
	}
	return redisError(err)
}

// Open gives the partition back to everybody: it has its epoch, and no fence.
func (r *Restore) Open(ctx context.Context, epoch string) error {
	return r.write(ctx, func(pipe redis.Pipeliner) {
		pipe.Set(ctx, r.keys.epoch, epoch, 0)
		pipe.HDel(ctx, r.keys.revoked, fenceField)
	})
}

// Wipe removes everything but the outbox, the anchor and the fence.
func (r *Restore) Wipe(ctx context.Context) error {
	revoked, err := r.store.client.HKeys(ctx, r.keys.revoked).Result()
	if err != nil {
		return redisError(err)
	}
	fields := slices.DeleteFunc(revoked, func(f string) bool { return f == fenceField })
	err = r.write(ctx, func(pipe redis.Pipeliner) {
		pipe.Unlink(ctx, r.keys.epoch)
		if len(fields) > 0 {
			pipe.HDel(ctx, r.keys.revoked, fields...)
		}
	})
	if err != nil {
		return err
	}
	if cluster, ok := r.store.client.(*redis.ClusterClient); ok {
		return redisError(cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error {
			return r.wipeNode(ctx, c)
		}))
	}
	return r.wipeNode(ctx, r.store.client)
}

// wiped are the key families that a rebuild writes anew, or that do not
// survive one.
var wiped = [...]string{
	"bp", "reservation", "expiring", "lapsing", "live", "opened", "concurrency", "similar", "epoch", "outstanding", "quarantine",
	"tree", "children", "registration",
}

func (r *Restore) wipeNode(ctx context.Context, c redis.Cmdable) error {
	var cursor uint64
	for {
		keys, next, err := c.Scan(ctx, cursor, "*:"+r.keys.tag+"*", 1000).Result()
		if err != nil {
			return redisError(err)
		}
		doomed := keys[:0]
		for _, key := range keys {
			family, _, _ := strings.Cut(key, ":"+r.keys.tag)
			if slices.Contains(wiped[:], family) {
				doomed = append(doomed, key)
			}
		}
		if len(doomed) > 0 {
			if err := r.write(ctx, func(pipe redis.Pipeliner) { pipe.Unlink(ctx, doomed...) }); err != nil {
				return err
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}
