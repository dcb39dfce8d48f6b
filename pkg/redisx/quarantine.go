package redisx

import "context"

// Quarantined lists what a partition has set aside: execution (or, for an
// unreadable outbox entry, its id) and the reason.
func (s *Store) Quarantined(ctx context.Context, partition int) (map[string]string, error) {
	out, err := s.client.HGetAll(ctx, s.partitions[partition].quarantine).Result()
	return out, redisError(err)
}

// QuarantineEntry sets aside an outbox entry that cannot be read.
func (s *Store) QuarantineEntry(ctx context.Context, partition int, outboxID string) error {
	return redisError(s.client.HSet(ctx, s.partitions[partition].quarantine, "outbox:"+outboxID, "entry_corrupt").Err())
}

// SetAside takes an execution that cannot be expired out of the deadlines, so
// that it does not stand in the way of others.
func (s *Store) SetAside(ctx context.Context, partition int, o Overdue, reason string) error {
	k := &s.partitions[partition]
	pipe := s.client.Pipeline()
	pipe.HSet(ctx, k.quarantine, o.Execution, reason)
	pipe.ZRem(ctx, k.lapsing, o.Execution)
	if o.live != "" {
		pipe.ZRem(ctx, o.live, o.Execution)
	}
	_, err := pipe.Exec(ctx)
	return redisError(err)
}
