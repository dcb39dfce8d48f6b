package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"strconv"
	"time"

	"tallystick/pkg/events"
)

// Bounds of a wait.
const (
	DefaultWait = time.Minute
	// MaxWait is half of the time for which a denied key stays denied: a wait
	// that is repeated after a crash must still find every try it has made.
	MaxWait = 30 * time.Minute

	minWaitPause = 100 * time.Millisecond
	maxWaitPause = 5 * time.Second
)

// WaitPolicy says how long a denial is waited out.
type WaitPolicy struct {
	// Max bounds the whole wait, as the context does: zero is [DefaultWait],
	// and more than [MaxWait] is that.
	Max time.Duration
}

// ReserveWait is [Client.Reserve] that waits out a denial with retry_after_ms
// and asks again, until it is allowed, denied for another reason, or the
// policy's time is over: then the last denial is the answer. The broker's time
// is an upper bound, because a holder may finish early, so it asks again after
// at most 5 seconds.
//
// A denied key stays denied, so the tries have keys of their own: key, key#2,
// key#3… A wait that is repeated under the same key walks the same keys, is
// answered the same, and so finds the reservation that an earlier one made
// instead of making a second. That holds for an hour after the first denial.
// Do not use keys that end in # and a number for anything else.
//
// When ctx ends, nothing stays held: a try whose answer is missing is released
// by its key. That ends this key: a later wait under it is denied "released".
func (c *Client) ReserveWait(ctx context.Context, key string, q events.Reserve, p WaitPolicy) (events.ReserveAnswer, error) {
	t, err := c.try(ctx, key, q, &p, nil)
	if err == nil {
		return t.answer, nil
	}
	if t.unknown && ctx.Err() != nil {
		err = errors.Join(err, c.resolve(ctx, nil, key, events.VerbRelease, events.Release{Key: &t.key}))
	}
	return events.ReserveAnswer{}, err
}

// tried is what became of asking once or more often.
type tried struct {
	answer   events.ReserveAnswer
	key      string // of the last try
	asked    time.Time
	replayed bool
	unknown  bool // the last try may have been decided without us
}

// try asks once, or as long as a policy lets it. It calls before, if given,
// with the key of each try.
func (c *Client) try(ctx context.Context, key string, q events.Reserve, p *WaitPolicy, before func(key string) error) (t tried, err error) {
	var end time.Time
	if p != nil {
		end = time.Now().Add(p.max())
	}
	for n := 1; ; n++ {
		t = tried{key: tryKey(key, n), asked: time.Now()}
		if err := ctx.Err(); err != nil {
			return t, err
		}
		if before != nil {
			if err := before(t.key); err != nil {
				return t, err
			}
		}
		t.answer, t.replayed, err = askReplayed(ctx, c, events.VerbReserve, t.key, q, events.ParseReserveAnswer)
		if err != nil {
			t.unknown = !decided(err)
			return t, err
		}
		d := t.answer.Denial
		if p == nil || d == nil {
			return t, nil
		}
		left := time.Until(end)
		if left <= 0 {
			return t, nil
		}
		if t.replayed && passing(d.Reason) {
			continue // an earlier walk has waited here, and a replay may leave the figures out
		}
		if d.RetryAfterMS == nil {
			return t, nil
		}
		if err := sleep(ctx, min(waitPause(n, *d.RetryAfterMS), left)); err != nil {
			return t, giveUp(err, &DeniedError{*d})
		}
	}
}

func (p WaitPolicy) max() time.Duration {
	if p.Max <= 0 {
		return DefaultWait
	}
	return min(p.Max, MaxWait)
}

// passing reports whether a denial's reason can pass by itself.
func passing(r events.Reason) bool {
	return r == events.ReasonBudgetExceeded || r == events.ReasonConcurrencyExceeded || r == events.ReasonFrozen
}

// waitPause is the broker's time between two bounds, of which the lower one
// grows: each try leaves a denied key behind. Jitter only adds, because the
// broker said that earlier is too early.
func waitPause(n int, retryAfterMS int64) time.Duration {
	low := min(minWaitPause<<min(n-1, 8), maxWaitPause)
	d := min(max(time.Duration(min(retryAfterMS, maxWaitPause.Milliseconds()))*time.Millisecond, low), maxWaitPause)
	return d + rand.N(d/4+1)
}

// tryKey is the key of the nth try. One that would be too long becomes a
// digest, which is as deterministic.
func tryKey(key string, n int) string {
	if n == 1 {
		return key
	}
	suffix := "#" + strconv.Itoa(n)
	if len(key)+len(suffix) > events.MaxKeyBytes {
		sum := sha256.Sum256([]byte(key))
		key = hex.EncodeToString(sum[:])
	}
	return key + suffix
}

// decided reports whether an error says that the request was not executed.
// Everything else, a lost answer above all, leaves that open.
func decided(err error) bool {
	var e *events.Error
	return errors.As(err, &e) && !e.Retryable
}
