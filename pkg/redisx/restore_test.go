package redisx

import (
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"tallystick/internal/testkit"
)

// TestRestoreTakenOver: a rebuild that stands still between its look at the
// fence and its write, and is overtaken meanwhile, writes nothing.
func TestRestoreTakenOver(t *testing.T) {
	t.Parallel()
	u := newUpkeep(t, testkit.OwnRedis(t).Client(t), 5)
	ctx := t.Context()
	if err := u.store.Fence(ctx, 5, "rebuild a"); err != nil {
		t.Fatal(err)
	}
	late := u.store.Restore(5, "rebuild a")
	epoch := u.store.partitions[5].epoch
	err := late.write(ctx, func(pipe redis.Pipeliner) {
		if err := u.store.Fence(ctx, 5, "rebuild b"); err != nil {
			t.Error(err)
		}
		pipe.Set(ctx, epoch, "of a", 0)
	})
	if !errors.Is(err, ErrTakenOver) {
		t.Errorf("overtaken while it stood still: %v", err)
	}
	if got := u.client.Get(ctx, epoch).Val(); got != "e1" {
		t.Errorf("it wrote all the same: epoch %q", got)
	}
	for what, err := range map[string]error{
		"wipe": late.Wipe(ctx), "limits": late.Limits(ctx, make([]LimitState, 1)), "outbox": late.Outbox(ctx, Anchor{}),
		"undo": late.Undo(ctx, make([]Undo, 1)), "open": late.Open(ctx, "of a"),
	} {
		if !errors.Is(err, ErrTakenOver) {
			t.Errorf("%s of a rebuild that was taken over: %v", what, err)
		}
	}
	if reason, err := u.store.Fenced(ctx, 5); err != nil || reason != "rebuild b" {
		t.Errorf("fence %q, %v", reason, err)
	}
	if err := u.store.Restore(5, "rebuild b").Open(ctx, "of b"); err != nil {
		t.Error(err)
	}
}
