package bench

import (
	"context"
	"fmt"
	"time"
)

const (
	groupHand   = "by hand"
	handClients = 64
	handKey     = "hand:budget"
	raceCap     = 1000 // reservations that the pool of a race can pay
)

// hand measures what people write instead, and lets each run the race for the
// last of the money.
func (b *run) hand(ctx context.Context) error {
	for _, way := range []struct{ kind, name string }{
		{loadNaive, "Redis GET, then DECRBY"},
		{loadLock, "Redis lock: SET NX PX, GET, DECRBY, compare and delete"},
	} {
		if err := b.byHand(ctx, way.kind, way.name); err != nil {
			return err
		}
	}
	return b.postgres(ctx)
}

func (b *run) byHand(ctx context.Context, kind, name string) error {
	password, _ := b.redis.user.Password()
	spec := loadSpec{
		Kind: kind, Clients: handClients, Warm: settleWindow, Window: b.cfg.Window, Windows: b.cfg.Windows,
		Socket: b.redis.socket, User: b.redis.user.Username(), Password: password, Key: handKey,
	}
	fill := func(money int64) error {
		if err := b.redis.client.FlushAll(ctx).Err(); err != nil {
			return err
		}
		return b.redis.client.Set(ctx, handKey, money, time.Hour).Err()
	}
	if err := fill(unlimited); err != nil {
		return err
	}
	windows, err := b.generate(ctx, spec, b.redis.client, nil)
	if err != nil {
		return err
	}
	if err := fill(raceCap * benchAmount); err != nil {
		return err
	}
	spec.Race, spec.Windows = true, 0
	race, err := b.generate(ctx, spec, b.redis.client, nil)
	if err != nil {
		return err
	}
	r := rowOf(groupHand, name, handClients, windows)
	r.Note = joinNotes(raceNote(race), failures(windows))
	if kind == loadLock {
		r.Note = joinNotes(r.Note, "until a holder pauses past the lock's expiry")
	}
	b.add(r)
	return nil
}

// raceNote says whether more was given than was there.
func raceNote(race []window) string {
	allowed := 0
	for _, w := range race {
		allowed += w.allowed
	}
	return raceVerdict(allowed)
}

func raceVerdict(allowed int) string {
	switch {
	case allowed > raceCap:
		return fmt.Sprintf("cap race LOST: %d given where %d were there", allowed, raceCap)
	case allowed < raceCap:
		return fmt.Sprintf("cap race: only %d of %d given", allowed, raceCap)
	}
	return fmt.Sprintf("cap race won: %d of %d", allowed, raceCap)
}

func joinNotes(notes ...string) string {
	out := ""
	for _, n := range notes {
		if n != "" && out != "" {
			out += "; "
		}
		out += n
	}
	return out
}
