package redisx

import (
	"context"
	"fmt"
	"strconv"

	"tallystick/pkg/budget"
)

// PendingBalance is the answer to come of a balance.
type PendingBalance struct {
	// Rows are in the order asked; a limit whose hash is gone has all zeros
	// and Missing set.
	Rows    []budget.PoolRow
	Missing []budget.LimitID
	Err     error
}

// Balance adds the reading of limits to the batch: lua/balance.lua.
func (b *Batch) Balance(org string, limits []budget.LimitID) *PendingBalance {
	c := &balanceCall{store: b.store, org: org, limits: limits}
	b.calls = append(b.calls, c)
	return &c.PendingBalance
}

// Balances reads limits by themselves.
func (s *Store) Balances(ctx context.Context, org string, limits []budget.LimitID) ([]budget.PoolRow, error) {
	b := s.Batch()
	p := b.Balance(org, limits)
	b.Run(ctx)
	return p.Rows, p.Err
}

type balanceCall struct {
	PendingBalance
	store  *Store
	org    string
	limits []budget.LimitID
}

func (c *balanceCall) failed(err error) { c.Err = err }

func (c *balanceCall) command() (*script, []string, []any) {
	k := c.store.keysOf(c.org)
	keys, args := []string{k.epoch, k.outstanding}, make([]any, 0, len(c.limits))
	for _, l := range c.limits {
		keys = append(keys, k.limit(c.org, l))
		args = append(args, fieldOf(c.org, l))
	}
	return c.store.scripts["balance"], keys, args
}

func (c *balanceCall) reply(v []string) (bool, error) {
	if len(v) != 1+6*len(c.limits) {
		return false, fmt.Errorf("redisx: balance of %d words for %d limits", len(v), len(c.limits))
	}
	for i, l := range c.limits {
		words := v[1+6*i : 7+6*i]
		counters, err := figures(words)
		if err != nil {
			return false, err
		}
		if words[0] == "-" {
			c.Missing = append(c.Missing, l)
		}
		outstanding, _ := strconv.ParseInt(words[5], 10, 64)
		c.Rows = append(c.Rows, budget.PoolRow{LimitID: l, Counters: counters, Outstanding: max(0, outstanding)})
	}
	return false, nil
}
