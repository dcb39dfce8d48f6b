package redisx

import (
	"context"
	"strconv"

	"tallystick/pkg/budget"
)

// Standing is what Redis knows of an agent: whether it or an ancestor has
// ended, and how many live below it and in its whole tree.
type Standing struct {
	Revoked        bool
	Children, Tree int64
}

// Standing reads an agent's standing.
func (s *Store) Standing(ctx context.Context, a budget.Agent) (Standing, error) {
	k := s.keysOf(a.Org)
	now, err := s.client.Time(ctx).Result()
	if err != nil {
		return Standing{}, redisError(err)
	}
	at := Registration{Agent: a.ID, Ancestors: a.Ancestors}
	after := "(" + strconv.FormatInt(now.UnixMilli(), 10)
	pipe := s.client.Pipeline()
	ends := pipe.HMGet(ctx, k.revoked, append([]string{a.ID}, a.Ancestors...)...)
	children := pipe.ZCount(ctx, k.children(a.Org, a.ID), after, "+inf")
	tree := pipe.ZCount(ctx, k.tree(a.Org, at.root()), after, "+inf")
	if _, err := pipe.Exec(ctx); err != nil {
		return Standing{}, redisError(err)
	}
	out := Standing{Children: children.Val(), Tree: tree.Val()}
	for _, v := range ends.Val() {
		text, ok := v.(string)
		if !ok {
			continue
		}
		end, err := strconv.ParseInt(text, 10, 64)
		out.Revoked = out.Revoked || err != nil || end <= now.UnixMilli()
	}
	return out, nil
}
