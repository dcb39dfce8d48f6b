package registry

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"

	"tallystick/pkg/events"
)

// Checkpoints is the bucket of the newest signed checkpoint per org, in
// account AUDIT.
type Checkpoints struct{ notes bucket[string] }

// OpenCheckpoints binds to the bucket through a connection in AUDIT.
func OpenCheckpoints(ctx context.Context, js jetstream.JetStream) (Checkpoints, error) {
	b, err := openBucket[string](ctx, js, events.BucketCheckpoints)
	return Checkpoints{b}, err
}

// Newest gives an org's checkpoint and its revision; "" and 0 where there is
// none.
func (c Checkpoints) Newest(ctx context.Context, org string) (text string, revision uint64, err error) {
	entry, err := c.notes.kv.Get(ctx, org)
	if err = c.notes.failed("read", org, err); errors.Is(err, ErrNotFound) {
		return "", 0, nil
	}
	if err != nil {
		return "", 0, err
	}
	return string(entry.Value()), entry.Revision(), nil
}

// Put publishes a checkpoint over the one that was read at revision, and
// answers ErrConflict or ErrExists where another was quicker.
func (c Checkpoints) Put(ctx context.Context, org, text string, revision uint64) error {
	if revision == 0 {
		_, err := c.notes.kv.Create(ctx, org, []byte(text))
		return c.notes.failed("create", org, err)
	}
	_, err := c.notes.kv.Update(ctx, org, []byte(text), revision)
	return c.notes.failed("update", org, err)
}
