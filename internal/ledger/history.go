package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tallystick/pkg/events"
)

// History gives an org's events of one type from a time on, in the order in
// which they were published, as far as the stream still has them. complete is
// the time from which on it has them all.
func (e *Events) History(ctx context.Context, org, eventType string, from time.Time, visit func(events.EventMessage)) (complete time.Time, err error) {
	stream, err := e.js.Stream(ctx, events.StreamEvents)
	if err != nil {
		return from, fmt.Errorf("stream %s: %w", events.StreamEvents, err)
	}
	// What was first has gone where the stream does not begin at 1.
	if state := stream.CachedInfo().State; state.FirstSeq > 1 && state.FirstTime.After(from) {
		complete = state.FirstTime
	} else {
		complete = from
	}
	c, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		AckPolicy: jetstream.AckNonePolicy, DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &from,
		FilterSubject: events.Event(org, eventType), MemoryStorage: true, Replicas: 1, InactiveThreshold: idleConsumer,
	})
	if err != nil {
		return complete, fmt.Errorf("history of %s: %w", eventType, err)
	}
	defer func() { _ = stream.DeleteConsumer(context.WithoutCancel(ctx), c.CachedInfo().Name) }()
	for left := c.CachedInfo().NumPending; left > 0; {
		batch, err := c.Fetch(min(int(left), readPage), jetstream.FetchMaxWait(pullWait)) //nolint:gosec // small
		if err != nil {
			return complete, fmt.Errorf("history of %s: %w", eventType, err)
		}
		n := 0
		for msg := range batch.Messages() {
			n++
			if event, err := events.ParseEvent(msg.Data()); err == nil {
				visit(event)
			}
		}
		if err := batch.Error(); err != nil && !errors.Is(err, nats.ErrTimeout) {
			return complete, fmt.Errorf("history of %s: %w", eventType, err)
		}
		if n == 0 {
			return complete, nil // what was counted has been dropped meanwhile
		}
		left -= min(left, uint64(n)) //nolint:gosec // positive
	}
	return complete, nil
}
