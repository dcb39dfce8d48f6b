package reconciler

import (
	"context"
	"strings"
	"time"

	"tallystick/pkg/events"
	"tallystick/pkg/redisx"
)

// fenceReason is what a partition under rebuild is fenced with.
const fenceReason = "rebuild"

// lostReason is what lua/trim.lua fences with.
const lostReason = "lost"

// secondLook is how long an installation that is being made may take between
// writing a partition's epoch to KV and to Redis.
const secondLook = time.Second

// lookEvery is how long a broken partition waits at most.
const lookEvery = 2 * time.Second

// heal rebuilds, by itself, partitions that were emptied, that the scribe
// fenced because they know less than the ledger, or whose rebuild broke off.
// Another reason's fence is an operator's and stays.
func (r *Reconciler) heal(ctx context.Context) error {
	broken, err := r.broken(ctx)
	if err != nil || len(broken) == 0 {
		return err
	}
	later := time.NewTimer(secondLook)
	defer later.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-later.C:
	}
	return r.leased(ctx, func(ctx context.Context, token string) error {
		// Whoever had the lease before may have done it all.
		if broken, err = r.broken(ctx); err != nil || len(broken) == 0 {
			return err
		}
		r.cfg.Log.Error().Any("partitions", broken).Msg("ALARM: Redis lost writes; it is rebuilt from the ledger")
		answer, err := r.rebuild(ctx, token, broken)
		if err != nil {
			return err
		}
		return r.noteRebuild(ctx, answer.Orgs, "reconciler", "Redis lost writes")
	})
}

// noteRebuild is on the ledger of every org whose counters were written anew.
func (r *Reconciler) noteRebuild(ctx context.Context, orgs []string, by, why string) error {
	for _, org := range orgs {
		err := r.cfg.Store.Administer(ctx, redisx.AdministerArgs{Org: org, Action: events.AdminRebuild, By: by, Why: why, Subject: org})
		if err != nil {
			return err
		}
	}
	return nil
}

// broken lists the partitions that heal rebuilds, with why.
func (r *Reconciler) broken(ctx context.Context) (map[int]string, error) {
	broken := map[int]string{}
	for p := range r.cfg.Store.Partitions() {
		fence, err := r.cfg.Store.Fenced(ctx, p)
		if err != nil {
			return nil, err
		}
		if fence != "" {
			if reason, ok := healable(fence); ok {
				broken[p] = reason
			}
			continue
		}
		has, err := r.cfg.Store.Epoch(ctx, p)
		if err != nil {
			return nil, err
		}
		if has != "" {
			continue
		}
		known, err := r.cfg.Epochs.Epoch(ctx, p)
		if err != nil {
			return nil, err
		}
		if known != "" {
			broken[p] = events.RebuildEmptied
		}
	}
	return broken, nil
}

// healable tells a fence that heal may lift, and why it is there: a rebuild
// that broke off says what it was for.
func healable(fence string) (reason string, ok bool) {
	words := strings.Fields(fence)
	switch {
	case fence == lostReason:
		return events.RebuildLost, true
	case words[0] == fenceReason && len(words) == 3:
		return words[2], true
	case words[0] == fenceReason:
		return events.RebuildAsked, true
	}
	return "", false
}
