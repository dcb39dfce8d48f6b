package redisx

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"tallystick/pkg/budget"
)

// clusterPoll is how often a cluster is asked for new entries: one blocking
// read cannot span slots.
const clusterPoll = 20 * time.Millisecond

// CorruptEntry is an outbox entry that cannot be read.
type CorruptEntry struct {
	Partition int
	OutboxID  string
	Err       error
}

// OutboxPage is what a read of outboxes gave. Entries follow each other in
// outbox order within a partition.
type OutboxPage struct {
	Entries []budget.Entry
	Corrupt []CorruptEntry
}

func (p *OutboxPage) add(partition int, messages []redis.XMessage) {
	for _, m := range messages {
		raw, _ := m.Values["e"].(string)
		entry, err := ParseEntry(partition, m.ID, raw)
		if err != nil {
			p.Corrupt = append(p.Corrupt, CorruptEntry{partition, m.ID, err})
			continue
		}
		p.Entries = append(p.Entries, entry)
	}
}

// OutboxRead reads up to count entries of one partition after an id; "" is
// the beginning.
func (s *Store) OutboxRead(ctx context.Context, partition int, after string, count int64) (OutboxPage, error) {
	var page OutboxPage
	messages, err := s.client.XRangeN(ctx, s.partitions[partition].outbox, exclusive(after), "+", count).Result()
	if err != nil {
		return page, redisError(err)
	}
	page.add(partition, messages)
	return page, nil
}

func exclusive(after string) string {
	if after == "" {
		return "-"
	}
	return "(" + after
}

// OutboxWait reads up to count entries of each partition after its id, and
// waits up to block for the first where there are none; block 0 does not wait.
func (s *Store) OutboxWait(ctx context.Context, after []string, count int64, block time.Duration) (OutboxPage, error) {
	if _, cluster := s.client.(*redis.ClusterClient); cluster {
		return s.outboxPoll(ctx, after, count, block)
	}
	streams := make([]string, 2*len(s.partitions))
	for p := range s.partitions {
		streams[p] = s.partitions[p].outbox
		streams[len(s.partitions)+p] = "0-0"
		if after[p] != "" {
			streams[len(s.partitions)+p] = after[p]
		}
	}
	if block == 0 {
		block = -1 // no BLOCK option at all; 0 would mean for ever
	}
	read, err := s.client.XRead(ctx, &redis.XReadArgs{Streams: streams, Count: count, Block: block}).Result()
	if errors.Is(err, redis.Nil) {
		return OutboxPage{}, nil
	}
	if err != nil {
		return OutboxPage{}, redisError(err)
	}
	var page OutboxPage
	for _, stream := range read {
		for p := range s.partitions {
			if s.partitions[p].outbox == stream.Stream {
				page.add(p, stream.Messages)
			}
		}
	}
	return page, nil
}

func (s *Store) outboxPoll(ctx context.Context, after []string, count int64, block time.Duration) (OutboxPage, error) {
	poll := time.NewTicker(clusterPoll)
	defer poll.Stop()
	for waited := time.Duration(0); ; waited += clusterPoll {
		pipe := s.client.Pipeline()
		sent := make([]*redis.XMessageSliceCmd, len(s.partitions))
		for p := range s.partitions {
			sent[p] = pipe.XRangeN(ctx, s.partitions[p].outbox, exclusive(after[p]), "+", count)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return OutboxPage{}, redisError(err)
		}
		var page OutboxPage
		for p, cmd := range sent {
			page.add(p, cmd.Val())
		}
		if len(page.Entries)+len(page.Corrupt) > 0 || waited >= block {
			return page, nil
		}
		select {
		case <-ctx.Done():
			return OutboxPage{}, ctx.Err()
		case <-poll.C:
		}
	}
}

// OutboxLast is, per partition, the last id its outbox has given out; "" where
// it never gave one.
func (s *Store) OutboxLast(ctx context.Context) ([]string, error) {
	pipe := s.client.Pipeline()
	sent := make([]*redis.XInfoStreamCmd, len(s.partitions))
	for p := range s.partitions {
		sent[p] = pipe.XInfoStream(ctx, s.partitions[p].outbox)
	}
	_, _ = pipe.Exec(ctx) // each command carries its own error
	out := make([]string, len(sent))
	for p, cmd := range sent {
		info, err := cmd.Result()
		if isNoSuchKey(err) {
			continue
		}
		if err != nil {
			return nil, redisError(err)
		}
		if info.LastGeneratedID != "0-0" {
			out[p] = info.LastGeneratedID
		}
	}
	return out, nil
}

func isNoSuchKey(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer) && answer.Error() == "ERR no such key"
}
