package ledger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tallystick/pkg/budget"
	"tallystick/pkg/events"
)

// followAckWait is when an entry that was not acknowledged comes again;
// followRetry is the delay after a failed one; followPending bounds how many
// are under way.
const (
	followAckWait = 30 * time.Second
	followRetry   = time.Second
	followPending = 256
)

// Follow gives every entry of a kind, of all orgs, to handle, at least once
// and across restarts; durable names the place. An entry whose handle failed
// comes again. It returns when ctx ends, or when the consumer cannot be had.
func (l *Ledger) Follow(ctx context.Context, durable string, kind budget.Kind, handle func(context.Context, budget.Entry) error) error {
	consumer, err := l.durable(ctx, durable, kind)
	if err != nil {
		return fmt.Errorf("follow %s: %w", kind, err)
	}
	msgs, err := consumer.Messages(jetstream.PullMaxMessages(followPending))
	if err != nil {
		return fmt.Errorf("follow %s: %w", kind, err)
	}
	stop := context.AfterFunc(ctx, msgs.Stop)
	defer stop()
	defer msgs.Stop()
	for {
		msg, err := msgs.Next()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, jetstream.ErrMsgIteratorClosed):
			return fmt.Errorf("follow %s: %w", kind, err)
		case errors.Is(err, jetstream.ErrConsumerDeleted), errors.Is(err, jetstream.ErrConsumerNotFound):
			return fmt.Errorf("follow %s: %w", kind, err)
		case err != nil:
			continue // missed heartbeats and reconnects heal by themselves
		}
		entry, err := Decode(msg.Data())
		if err != nil {
			_ = msg.TermWithReason("no ledger entry")
			continue
		}
		if handle(ctx, entry) != nil {
			_ = msg.NakWithDelay(followRetry)
			continue
		}
		_ = msg.Ack() // a lost ack means that the entry comes again
	}
}

func (l *Ledger) durable(ctx context.Context, name string, kind budget.Kind) (jetstream.Consumer, error) {
	c, err := l.stream.Consumer(ctx, name)
	if !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return c, err
	}
	return l.stream.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
		Durable:       name,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       followAckWait,
		MaxAckPending: followPending,
		FilterSubject: events.Ledger("*", events.LedgerKind(kind)),
	})
}

// eventType begins the type of every event; its name follows.
const eventType = "tally.event.v1."

// Events publishes to the stream EVENTS.
type Events struct{ js jetstream.JetStream }

// NewEvents publishes through js.
func NewEvents(js jetstream.JetStream) *Events { return &Events{js: js} }

// Publish stores one event under its id. The same event published again is
// stored once within the stream's dedupe window; readers drop later repeats.
func (e *Events) Publish(ctx context.Context, event events.EventMessage) error {
	head := event.Head()
	msg := &nats.Msg{Subject: events.Event(head.Org, strings.TrimPrefix(head.Type, eventType)), Data: event.Append(nil)}
	if _, err := e.js.PublishMsg(ctx, msg, jetstream.WithMsgID(head.ID)); err != nil {
		return fmt.Errorf("publish event %s: %w", head.ID, err)
	}
	return nil
}
