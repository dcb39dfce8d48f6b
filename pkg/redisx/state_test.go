package redisx

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"tallystick/pkg/budget"
)

// state is everything Redis holds for the bench's org, in one line, sorted:
// limits with their counters, records with their state, deadlines, live sets,
// slots, revocations, opened limits and the kinds of the entries. A key that no
// rule below knows shows as itself, so nothing can hide.
func (b *bench) state() string {
	b.Helper()
	ctx, k := b.Context(), b.store.keysOf(b.org)
	parts := []string{}
	records := map[string]string{}
	for _, id := range b.executions {
		if text, err := b.client.Get(ctx, k.record(id)).Result(); err == nil {
			records[id] = strings.SplitN(text, " ", 3)[1]
			parts = append(parts, "record "+records[id]+b.ttl(k.record(id)))
		} else if !errors.Is(err, redis.Nil) {
			parts = append(parts, "record "+err.Error())
		}
		live := k.live(b.org, b.agent.ID)
		if score, err := b.client.ZScore(ctx, live, id).Result(); err == nil {
			parts = append(parts, fmt.Sprintf("expiring %+d", int64(score)-b.nowMS))
			if first, err := b.client.ZScore(ctx, k.expiring, live).Result(); err != nil || first > score {
				parts = append(parts, fmt.Sprintf("nobody will expire it: %v %v", first, err))
			}
		}
		if score, err := b.client.ZScore(ctx, k.lapsing, id).Result(); err == nil {
			parts = append(parts, fmt.Sprintf("expiring %+d", int64(score)-b.nowMS))
		}
		if why, err := b.client.HGet(ctx, k.quarantine, id).Result(); err == nil {
			parts = append(parts, "quarantine "+why)
		}
	}
	for _, key := range b.scan("*" + seg(b.org) + "*") {
		parts = append(parts, b.describe(key))
	}
	for field := range b.client.HGetAll(ctx, k.opened).Val() {
		if strings.HasPrefix(field, seg(b.org)) {
			parts = append(parts, "opened "+strings.Split(field, ":")[2][:1])
		}
	}
	if b.client.HExists(ctx, k.revoked, b.agent.ID).Val() {
		parts = append(parts, "revoked")
	}
	kinds := []string{}
	for _, e := range b.entries() {
		kinds = append(kinds, string(e.Kind))
	}
	slices.Sort(parts)
	return strings.Join(append(parts, "entries "+strings.Join(kinds, " ")), "; ")
}

// scan looks for keys on every node.
func (b *bench) scan(pattern string) []string {
	b.Helper()
	var mu sync.Mutex // the nodes of a cluster are asked at once
	var out []string
	node := func(ctx context.Context, c *redis.Client) error {
		iter := c.Scan(ctx, 0, pattern, 1000).Iterator()
		for iter.Next(ctx) {
			mu.Lock()
			out = append(out, iter.Val())
			mu.Unlock()
		}
		return iter.Err()
	}
	var err error
	switch c := b.client.(type) {
	case *redis.ClusterClient:
		err = c.ForEachMaster(b.Context(), node)
	case *redis.Client:
		err = node(b.Context(), c)
	}
	if err != nil {
		b.Fatal(err)
	}
	return out
}

func (b *bench) ttl(key string) string {
	ttl := b.client.PTTL(b.Context(), key).Val()
	switch {
	case ttl < 0:
		return ""
	case ttl > budget.UnsettledKept-budget.DenialKept:
		return " 30d"
	case ttl > budget.ResolvedKept-budget.DenialKept:
		return " 24h"
	}
	return " 1h"
}

func (b *bench) describe(key string) string {
	ctx, k := b.Context(), b.store.keysOf(b.org)
	switch {
	case strings.HasPrefix(key, k.limitPrefix):
		h := b.client.HGetAll(ctx, key).Val()
		pool := strings.Split(strings.TrimPrefix(key, k.limitPrefix+seg(b.org)), ":")[1]
		return fmt.Sprintf("%s cap %s held %s spent %s withheld %s", pool[:1], h["cap"], h["held"], h["spent"], h["withheld"])
	case strings.HasPrefix(key, k.livePrefix):
		return fmt.Sprintf("live %d", b.client.ZCard(ctx, key).Val())
	case strings.HasPrefix(key, k.treePrefix):
		return fmt.Sprintf("tree %d", b.client.ZCard(ctx, key).Val())
	case strings.HasPrefix(key, k.childrenPrefix):
		return fmt.Sprintf("children %d", b.client.ZCard(ctx, key).Val())
	case strings.HasPrefix(key, k.slotPrefix):
		return fmt.Sprintf("slot %d", b.client.ZCard(ctx, key).Val())
	}
	return "unknown key " + key
}

// told is a decision or an error in a few words.
func told(d budget.Decision, err error) string {
	if err != nil {
		for _, known := range []error{
			budget.ErrNotFound, budget.ErrKeyReused, budget.ErrAlreadySettled, budget.ErrAlreadyReleased,
			budget.ErrAlreadyExpired, budget.ErrStalePolicy, budget.ErrAttempts, budget.ErrUnavailable,
		} {
			if errors.Is(err, known) {
				return known.Error()
			}
		}
		return err.Error()
	}
	out := string(d.Outcome)
	if d.Denial != nil {
		out += " " + string(d.Denial.Reason)
		if d.Denial.Limit.Pool != "" {
			out += " " + d.Denial.Limit.Pool
		}
	}
	for name, amounts := range map[string]budget.Amounts{"overrun": d.Overrun} {
		if len(amounts) > 0 {
			out += " " + name + " " + formatAmounts(amounts)
		}
	}
	if d.Charged != nil && d.Returned != nil {
		out += fmt.Sprintf(" charged %s returned %s", formatAmounts(d.Charged), formatAmounts(d.Returned))
	} else if len(d.Returned) > 0 {
		out += " returned " + formatAmounts(d.Returned)
	}
	for flag, on := range map[string]bool{" replayed": d.Replayed} {
		if on {
			out += flag
		}
	}
	if d.CostUnknown {
		out += " cost_unknown"
	}
	if d.PoolMissing {
		out += " pool_missing"
	}
	return out
}
