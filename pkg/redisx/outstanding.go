package redisx

import (
	"context"
	"strconv"

	"tallystick/pkg/budget"
)

// SetOutstanding writes how many reservations of each limit are outstanding:
// held, or expired and still withheld. Limits that are not named keep their
// figure. All are of orgs of the partition.
func (s *Store) SetOutstanding(ctx context.Context, partition int, counts map[budget.Counter]int64) error {
	if len(counts) == 0 {
		return nil
	}
	args := make([]any, 0, 2*len(counts))
	for c, n := range counts {
		args = append(args, fieldOf(c.Org, c.LimitID), strconv.FormatInt(n, 10))
	}
	return redisError(s.client.HSet(ctx, s.partitions[partition].outstanding, args...).Err())
}
