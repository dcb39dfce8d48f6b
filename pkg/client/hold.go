package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tallystick/pkg/events"
)

// DeniedError is a denial where only an error fits: [Client.Hold] had nothing
// to run. [Client.Reserve] answers a denial as a value.
type DeniedError struct{ Denial events.Denial }

func (e *DeniedError) Error() string { return "budget denied: " + string(e.Denial.Reason) }

// Hold is money held while a function runs.
type Hold struct {
	// Answer is what the reserve answered.
	Answer     events.ReserveAnswer
	dispatched bool
	actual     map[string]int64
}

// Dispatched marks that the paid call goes out now. From here on an error does
// not prove that nothing was spent.
func (h *Hold) Dispatched() { h.dispatched = true }

// Spent says what the call really cost.
func (h *Hold) Spent(actual map[string]int64) { h.dispatched, h.actual = true, actual }

// Hold reserves, runs do, and resolves the reservation whatever happens:
//
//   - Spent was called: that is settled.
//   - do failed before Dispatched: everything is released.
//   - else the cost is unknown: the whole reservation is charged.
//
// Resolving does not depend on ctx, which may be why do has failed. The one
// key serves reserve and settle alike: keys are scoped per verb.
func (c *Client) Hold(ctx context.Context, key string, q events.Reserve, do func(context.Context, *Hold) error) (err error) {
	ans, err := c.Reserve(ctx, key, q)
	if err != nil {
		return err
	}
	if ans.Denial != nil {
		return &DeniedError{*ans.Denial}
	}
	h := &Hold{Answer: ans}
	failed := true // a panic in do leaves it so
	defer func() {
		err = errors.Join(err, c.resolve(ctx, key, h, failed))
	}()
	err = do(ctx, h)
	failed = err != nil
	return err
}

// resolveTimeout bounds how long a finished Hold tries to book its cost. After
// it the deadline of the reservation decides, on the safe side.
const resolveTimeout = 15 * time.Second

func (c *Client) resolve(ctx context.Context, key string, h *Hold, failed bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resolveTimeout)
	defer cancel()
	if failed && !h.dispatched {
		_, err := c.Release(ctx, key, events.Release{Reservation: &h.Answer.Reservation})
		return err
	}
	q := events.Settle{Reservation: &h.Answer.Reservation, Actual: h.actual}
	ans, err := c.Settle(ctx, key, q)
	if err == nil && ans.Outcome == events.OutcomeDenied {
		return fmt.Errorf("client: settle %s: %w", h.Answer.Reservation, &DeniedError{events.Denial{Reason: events.ReasonOverrun}})
	}
	return err
}
