package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"tallystick/pkg/events"
)

// Request is one request as it goes out. Most callers use the typed methods.
type Request struct {
	Verb string
	Key  string // idempotency key; empty on verbs that only read
	Body []byte // JSON
	// Timeout is how long after storing a durable command may still be
	// executed. Zero takes what is left of the context.
	Timeout time.Duration
	// Trace is a W3C traceparent, passed on to the ledger entry.
	Trace string
}

// Answer is one answer as it arrived.
type Answer struct {
	Body     []byte
	Outcome  string
	Reason   string // of a denial
	Replayed bool   // it was given before
}

// Do sends a request and repeats it, under the same key, while the answer is
// missing or says that nothing was decided. An error answer comes back as
// *events.Error, with the body in Answer.
func (c *Client) Do(ctx context.Context, req Request) (Answer, error) {
	if c.durable && events.BothDoors(req.Verb) {
		return c.command(ctx, req)
	}
	var last error
	for attempt := range c.cfg.Attempts {
		if attempt > 0 {
			if err := c.pause(ctx, attempt, last); err != nil {
				return Answer{}, giveUp(err, last)
			}
		}
		ans, err := c.once(ctx, req, events.DoorRpc)
		if err == nil || !repeatable(err) {
			return ans, err
		}
		last = err
	}
	return Answer{}, last
}

// once sends a request to a door and waits for one answer.
func (c *Client) once(ctx context.Context, req Request, door string) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	subject := events.Rpc(c.org, c.agent, req.Verb)
	if door == events.DoorCmd {
		subject = events.Cmd(c.org, c.agent, req.Verb)
	}
	msg := nats.NewMsg(subject)
	msg.Data = req.Body
	if req.Key != "" {
		msg.Header.Set(events.HeaderKey, req.Key)
	}
	if req.Trace != "" {
		msg.Header.Set(events.HeaderTrace, req.Trace)
	}
	if door == events.DoorCmd && req.Timeout > 0 {
		msg.Header.Set(events.HeaderTimeout, strconv.FormatInt(max(1, req.Timeout.Milliseconds()), 10))
	}
	reply, err := c.nc.RequestMsgWithContext(ctx, msg)
	if err != nil {
		return Answer{}, transportError(req.Verb, err)
	}
	return parse(reply)
}

// parse reads what every answer has. Fields it does not know are left to the
// typed methods.
func parse(msg *nats.Msg) (Answer, error) {
	var head struct {
		Outcome string        `json:"outcome"`
		Reason  string        `json:"reason"`
		Error   *events.Error `json:"error"`
	}
	ans := Answer{Body: msg.Data, Replayed: msg.Header.Get(events.HeaderReplayed) == "true"}
	if err := json.Unmarshal(msg.Data, &head); err != nil {
		return ans, fmt.Errorf("client: the answer is no JSON object: %w", err)
	}
	ans.Outcome, ans.Reason = head.Outcome, head.Reason
	if head.Error != nil {
		return ans, answered(head.Error)
	}
	return ans, nil
}

// transportError says what a failed request means for the caller: nothing
// answered, so the outcome is unknown.
func transportError(verb string, err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("client: %s: %w", verb, err)
	case errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("client: %s: %w", verb, errors.Join(unavailable("no worker serves this"), err))
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("client: %s: %w", verb, errors.Join(&events.Error{Code: events.CodePayloadTooLarge, Message: "the request is too large"}, err))
	case errors.Is(err, nats.ErrConnectionClosed):
		return fmt.Errorf("client: %s: the client is closed: %w", verb, err)
	}
	return fmt.Errorf("client: %s: %w", verb, errors.Join(unavailable("no answer"), err))
}

// repeatable: asking again under the same key is safe and may help.
func repeatable(err error) bool {
	var e *events.Error
	return errors.As(err, &e) && e.Retryable
}

// pause waits before a repetition: as long as the answer asks for, or a
// doubling time with jitter, so that a crowd that failed together does not
// come back together.
func (c *Client) pause(ctx context.Context, attempt int, last error) error {
	d := min(c.cfg.Backoff<<(attempt-1), maxBackoff)
	var e *events.Error
	if errors.As(last, &e) && e.RetryAfterMS > 0 {
		d = max(d, min(time.Duration(e.RetryAfterMS)*time.Millisecond, maxBackoff))
	}
	return sleep(ctx, d/2+rand.N(d/2+1))
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// giveUp keeps both facts: the context ended, and what the last attempt said.
func giveUp(ctxErr, last error) error {
	if last == nil {
		return ctxErr
	}
	return fmt.Errorf("%w (last attempt: %w)", ctxErr, last)
}
