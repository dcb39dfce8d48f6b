package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"tallystick/pkg/events"
)

// askAgain is how long an accepted command may stay undecided before it is
// sent once more: the decision is not kept for a subscriber that was
// disconnected when it was published, but a repeated command has it published
// again.
const askAgain = 5 * time.Second

// command sends through the durable door and waits for the decision. It
// subscribes before it publishes, else a fast decision would be missed.
func (c *Client) command(ctx context.Context, req Request) (Answer, error) {
	if req.Timeout == 0 {
		req.Timeout = left(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.DecisionTimeout)
	defer cancel()
	decisions := make(chan *nats.Msg, 4)
	subject := events.Decision(c.org, c.agent, events.DecisionToken(req.Verb, req.Key))
	sub, err := c.nc.ChanSubscribe(subject, decisions)
	if err != nil {
		return Answer{}, transportError(req.Verb, err)
	}
	// The connection may be gone by now, and the subscription with it.
	defer func() { _ = sub.Unsubscribe() }()

	var last error
	for attempt := 0; ; {
		ans, err := c.once(ctx, req, events.DoorCmd)
		if err != nil {
			if !repeatable(err) {
				return ans, err
			}
			last = err
			if attempt++; attempt >= c.cfg.Attempts {
				return Answer{}, last
			}
			if err := c.pause(ctx, attempt, last); err != nil {
				return Answer{}, giveUp(err, last)
			}
			continue
		}
		if ans.Outcome != "accepted" {
			return ans, fmt.Errorf("client: the durable door answered %q", ans.Outcome)
		}
		attempt = 0
		ans, err = await(ctx, decisions)
		if !errors.Is(err, errUndecided) {
			return ans, err
		}
	}
}

var errUndecided = errors.New("undecided")

func await(ctx context.Context, decisions <-chan *nats.Msg) (Answer, error) {
	t := time.NewTimer(askAgain)
	defer t.Stop()
	select {
	case msg := <-decisions:
		return parse(msg)
	case <-t.C:
		return Answer{}, errUndecided
	case <-ctx.Done():
		return Answer{}, fmt.Errorf("client: accepted, but the decision has not arrived: %w", ctx.Err())
	}
}

// left is what remains of the context: a command whose caller has given up
// should not be executed any more.
func left(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	return min(time.Until(deadline), maxCommandTimeout)
}

// maxCommandTimeout is the contract's bound of Tally-Timeout-Ms.
const maxCommandTimeout = 30 * time.Minute
