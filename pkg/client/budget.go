package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/google/uuid"

	"tallystick/pkg/events"
)

// DeniedError is a denial where only an error fits: [Client.WithBudget] had
// nothing to run. [Client.Reserve] answers a denial as a value.
type DeniedError struct{ Denial events.Denial }

func (e *DeniedError) Error() string { return "budget denied: " + string(e.Denial.Reason) }

// Hold is money held while a function runs. It is safe for concurrent use.
type Hold struct {
	// Answer is what the reserve answered.
	Answer events.ReserveAnswer

	page   *page
	cancel context.CancelCauseFunc // of the function's context

	mu     sync.Mutex
	out    bool // the paid call may be out
	ended  bool // the function is over
	actual map[string]int64
}

var errEnded = errors.New("client: the hold has ended")

// Dispatched marks that the paid call goes out now. From here on an error does
// not prove that nothing was spent. Call it before the call. An error means that
// the mark could not be written to the journal, or that the function is over:
// its context is cancelled, and the call must not be made.
func (h *Hold) Dispatched() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.dispatched()
}

func (h *Hold) dispatched() error {
	if h.ended {
		return errEnded
	}
	if h.out {
		return nil
	}
	if err := h.page.dispatched(h.Answer.Reservation); err != nil {
		h.cancel(err)
		return err
	}
	h.out = true
	return nil
}

// Spent says what the call really cost; the last word counts.
func (h *Hold) Spent(actual map[string]int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return
	}
	// Where the mark cannot be written down, this process still knows.
	_ = h.dispatched()
	h.out, h.actual = true, maps.Clone(actual)
}

// HoldOption changes how [Client.WithBudget] reserves.
type HoldOption func(*holding)

type holding struct {
	key     string
	keyed   bool
	request events.Reserve
	wait    *WaitPolicy
}

// WithKey names the operation, so that a repetition of it, also by another
// process, finds the same reservation. Without it every call is a new one.
func WithKey(key string) HoldOption {
	return func(o *holding) { o.key, o.keyed = key, true }
}

// WithRequest takes everything of the reserve but the amounts from q: pool,
// TTL, target, labels and so on.
func WithRequest(q events.Reserve) HoldOption { return func(o *holding) { o.request = q } }

// WithWait waits out denials, as [Client.ReserveWait] does.
func WithWait(p WaitPolicy) HoldOption { return func(o *holding) { o.wait = &p } }

// Hold is [Client.WithBudget] with a key and a whole request.
func (c *Client) Hold(ctx context.Context, key string, q events.Reserve, fn func(context.Context, *Hold) error, opts ...HoldOption) error {
	return c.WithBudget(ctx, q.Amounts, fn, append([]HoldOption{WithKey(key), WithRequest(q)}, opts...)...)
}

// WithBudget reserves amounts, runs fn, and resolves the reservation whatever
// happens, a panic, a time-out and runtime.Goexit included:
//
//   - Spent was called: that is settled.
//   - fn failed before Dispatched: everything is released.
//   - else the cost is unknown: the whole reservation is charged.
//
// A denial is a *[DeniedError], and fn does not run. While fn runs, the
// deadline is extended; when the reservation is gone all the same, fn's context
// ends with a *[LostError] as its cause, and what fn spends is settled late.
// Resolving does not depend on ctx, which may be why fn has failed.
//
// Where the answer to the reserve is missing, fn does not run and the
// reservation is released by its key, which ends that key: the next try needs
// a new one. Under a key that has reserved before, fn runs if the reservation is
// still held, and then counts as dispatched, because an earlier run may have
// been; if it is not, the error is a LostError.
//
// The one key serves reserve, settle and release: keys are scoped per verb.
func (c *Client) WithBudget(ctx context.Context, amounts map[string]int64, fn func(ctx context.Context, h *Hold) error, opts ...HoldOption) error {
	var o holding
	for _, opt := range opts {
		opt(&o)
	}
	if dry(o.request) {
		return events.InvalidArgument("dry_run", "a dry run holds nothing to run with", "use Reserve")
	}
	if !o.keyed {
		id, err := uuid.NewV7()
		if err != nil {
			return fmt.Errorf("client: make a key: %w", err)
		}
		o.key = id.String()
	}
	o.request.Amounts = amounts
	p, err := c.journal.page(entry{Org: c.org, Agent: c.agent, ResolveKey: o.key})
	if err != nil {
		return err
	}
	t, err := c.try(ctx, o.key, o.request, o.wait, p.trying)
	switch {
	case t.unknown:
		return errors.Join(err, c.resolve(ctx, p, o.key, events.VerbRelease, events.Release{Key: &t.key}))
	case err != nil:
		return errors.Join(err, p.done())
	case t.answer.Denial != nil:
		return errors.Join(&DeniedError{*t.answer.Denial}, p.done())
	}
	return c.run(ctx, o, p, t, fn)
}

// run is WithBudget once the money is held.
func (c *Client) run(ctx context.Context, o holding, p *page, t tried, fn func(context.Context, *Hold) error) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	h := &Hold{Answer: t.answer, page: p, cancel: cancel}
	k := c.keeper(t, o.request)
	if t.replayed && o.keyed {
		// An earlier run made this reservation, and what it spent is not known
		// here. Where it cannot be extended, it is resolved already or left to
		// that run and its deadline; else it counts as dispatched.
		if err := k.extend(ctx); err != nil {
			return errors.Join(err, p.done())
		}
		if err := h.Dispatched(); err != nil {
			return errors.Join(err, p.done())
		}
	}
	stop := k.start(ctx, cancel)
	failed := true // a panic or Goexit in fn leaves it so
	defer func() {
		if lost := stop(); lost != nil && !errors.Is(err, lost) {
			err = errors.Join(err, lost)
		}
		err = errors.Join(err, c.finish(ctx, o.key, h, failed))
	}()
	err = fn(ctx, h)
	failed = err != nil
	return err
}

// finish resolves the reservation of a function that has ended.
func (c *Client) finish(ctx context.Context, key string, h *Hold, failed bool) error {
	h.mu.Lock()
	h.ended = true // a goroutine that fn left behind writes nothing any more
	out, actual := h.out, h.actual
	h.mu.Unlock()
	id := h.Answer.Reservation
	if failed && !out {
		return c.resolve(ctx, h.page, key, events.VerbRelease, events.Release{Reservation: &id})
	}
	err := c.resolve(ctx, h.page, key, events.VerbSettle, events.Settle{Reservation: &id, Actual: actual})
	if err != nil {
		err = fmt.Errorf("client: settle %s: %w", id, err)
	}
	return err
}

// resolveTimeout bounds how long the caller waits for a settle or release.
// After it the journal keeps it and it is sent later; without one the deadline
// of the reservation decides.
const resolveTimeout = 15 * time.Second

// resolve writes down what is to be sent, sends it, and forgets it once the
// broker has answered.
func (c *Client) resolve(ctx context.Context, p *page, key, verb string, q any) error {
	body, err := json.Marshal(q)
	if err != nil {
		p.leave()
		return fmt.Errorf("client: %s: %w", verb, err)
	}
	// A journal that cannot be written is no reason not to send.
	unwritten := p.resolving(verb, body)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resolveTimeout)
	defer cancel()
	err = c.deliver(ctx, verb, key, body)
	if final(err) {
		return errors.Join(err, unwritten, p.done())
	}
	p.leave()
	c.recoverLater()
	return errors.Join(err, unwritten)
}
