package registry

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"tallystick/pkg/events"
)

// Upload names a file of which parts arrive: the org, its hash, how many parts.
type Upload struct {
	Org, Hash string
	Parts     int
}

func (u Upload) key(part int) string { return fmt.Sprintf("%s.%s.%d.%d", u.Org, u.Hash, u.Parts, part) }

// Uploads holds parts until their file is made; what is left behind vanishes by
// itself, because the bucket forgets.
type Uploads struct{ kv jetstream.KeyValue }

// OpenUploads binds to the bucket, which exists.
func OpenUploads(ctx context.Context, js jetstream.JetStream) (*Uploads, error) {
	kv, err := js.KeyValue(ctx, events.BucketUploads)
	if err != nil {
		return nil, fmt.Errorf("registry: bucket %s: %w", events.BucketUploads, err)
	}
	return &Uploads{kv}, nil
}

// Put keeps a part, over one of the same number.
func (u *Uploads) Put(ctx context.Context, of Upload, part int, data []byte) error {
	if _, err := u.kv.Put(ctx, of.key(part), data); err != nil {
		if strings.Contains(err.Error(), "maximum bytes exceeded") { // the server's words; its code stands for every failed write
			return fmt.Errorf("registry: too many uploads at once: %w: %w", ErrUnavailable, err)
		}
		return fmt.Errorf("registry: keep a part: %w: %w", ErrUnavailable, err)
	}
	return nil
}

// Get gives a part; ErrNotFound where it is not there, or no more.
func (u *Uploads) Get(ctx context.Context, of Upload, part int) ([]byte, error) {
	entry, err := u.kv.Get(ctx, of.key(part))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("registry: read a part: %w: %w", ErrUnavailable, err)
	}
	return entry.Value(), nil
}

// Forget drops all parts that are kept.
func (u *Uploads) Forget(ctx context.Context, of Upload) error {
	var errs []error
	for part := range of.Parts - 1 { // the last one is in hand when the file is made
		if err := u.kv.Delete(ctx, of.key(part)); err != nil {
			errs = append(errs, fmt.Errorf("registry: drop a part: %w", err))
		}
	}
	return errors.Join(errs...)
}
