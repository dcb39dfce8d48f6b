package redisx

import (
	"context"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// Overdue is an execution whose deadline, or whose late window, has passed.
type Overdue struct {
	Execution string
	live      string // key it was found in; "" where its late window has passed
}

// minPerHolder is what one holder's script is worth asking for.
const minPerHolder = 16

// Due lists, per partition, about limit executions whose deadline or late
// window has passed by Redis's clock, and whether there are more. Holders share
// the limit, so that one with very many does not keep the others waiting.
func (s *Store) Due(ctx context.Context, limit int64) (due [][]Overdue, more bool, err error) {
	holders, lapsing, err := s.dueIndexes(ctx, limit)
	if err != nil {
		return nil, false, err
	}
	b := s.Batch()
	var asked []*overdueCall
	due = make([][]Overdue, len(s.partitions))
	for p := range due {
		more = more || int64(len(holders[p])) == limit || int64(len(lapsing[p])) == limit
		for _, execution := range lapsing[p] {
			due[p] = append(due[p], Overdue{Execution: execution})
		}
		for _, live := range holders[p] {
			c := &overdueCall{store: s, partition: p, live: live, most: max(minPerHolder, limit/int64(len(holders[p])))}
			asked, b.calls = append(asked, c), append(b.calls, c)
		}
	}
	b.Run(ctx)
	for _, c := range asked {
		if c.err != nil {
			return nil, false, c.err
		}
		for _, execution := range c.due {
			due[c.partition] = append(due[c.partition], Overdue{execution, c.live})
		}
		more = more || int64(len(c.due)) == c.most
	}
	return due, more, nil
}

// dueIndexes reads, per partition, whose deadlines to look at, and what lapses.
func (s *Store) dueIndexes(ctx context.Context, limit int64) (holders, lapsing [][]string, err error) {
	now, err := s.client.Time(ctx).Result()
	if err != nil {
		return nil, nil, redisError(err)
	}
	pipe := s.client.Pipeline()
	upTo := &redis.ZRangeBy{Min: "-inf", Max: strconv.FormatInt(now.UnixMilli(), 10), Count: limit}
	var sent [2][]*redis.StringSliceCmd
	for p := range s.partitions {
		sent[0] = append(sent[0], pipe.ZRangeByScore(ctx, s.partitions[p].expiring, upTo))
		sent[1] = append(sent[1], pipe.ZRangeByScore(ctx, s.partitions[p].lapsing, upTo))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, nil, redisError(err)
	}
	for p := range s.partitions {
		holders, lapsing = append(holders, sent[0][p].Val()), append(lapsing, sent[1][p].Val())
	}
	return holders, lapsing, nil
}

type overdueCall struct {
	store     *Store
	partition int
	live      string
	most      int64
	due       []string
	err       error
}

func (c *overdueCall) failed(err error) { c.err = err }

func (c *overdueCall) command() (*script, []string, []any) {
	k := &c.store.partitions[c.partition]
	return c.store.scripts["overdue"], []string{k.expiring, c.live}, []any{c.most}
}

func (c *overdueCall) reply(v []string) (bool, error) {
	c.due = v[1:]
	return false, nil
}
