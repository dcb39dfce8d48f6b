package registry

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"tallystick/internal/topology"
	"tallystick/pkg/events"
)

// Consumers makes and ends the durable consumers of pipeline identities.
type Consumers struct{ js jetstream.JetStream }

// NewConsumers works on the broker's JetStream.
func NewConsumers(js jetstream.JetStream) Consumers { return Consumers{js} }

// Make makes an identity's consumer, or leaves the one that is there.
func (c Consumers) Make(ctx context.Context, org, pipeline string) error {
	_, err := c.js.CreateOrUpdateConsumer(ctx, events.StreamDecisions, topology.PipelineConsumer(org, pipeline))
	if err != nil {
		return fmt.Errorf("registry: consumer of pipeline %s: %w: %w", pipeline, ErrUnavailable, err)
	}
	return nil
}

// End ends an identity's consumer, if it is there.
func (c Consumers) End(ctx context.Context, org, pipeline string) error {
	err := c.js.DeleteConsumer(ctx, events.StreamDecisions, events.PipelineConsumer(org, pipeline))
	if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return fmt.Errorf("registry: consumer of pipeline %s: %w: %w", pipeline, ErrUnavailable, err)
	}
	return nil
}
