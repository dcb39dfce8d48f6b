package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tallystick/pkg/events"
)

// Loss is a ledger that ends before what was acknowledged: the newest entry
// that was, and the last one that is there. The scribe that halted writes it;
// with by, why and at it is an operator's word that exactly this is lost.
type Loss struct {
	AnchorSeq  uint64    `json:"anchor_seq"`
	AnchorHash string    `json:"anchor_hash"`
	TailSeq    uint64    `json:"tail_seq"`
	TailHash   string    `json:"tail_hash"`
	Reason     string    `json:"reason,omitempty"` // why the scribe could not help itself
	By         string    `json:"by,omitempty"`
	Why        string    `json:"why,omitempty"`
	At         time.Time `json:"at,omitzero"`
}

// Same reports whether two records speak of the same two entries.
func (l Loss) Same(o Loss) bool {
	return l.AnchorSeq == o.AnchorSeq && l.AnchorHash == o.AnchorHash && l.TailSeq == o.TailSeq && l.TailHash == o.TailHash
}

const (
	lossHalted   = "loss.halted"
	lossAccepted = "loss.accepted"
)

// Losses are the two records about a ledger that lost entries.
type Losses struct{ records bucket[Loss] }

// OpenLosses binds to the bucket.
func OpenLosses(ctx context.Context, js jetstream.JetStream) (Losses, error) {
	b, err := openBucket[Loss](ctx, js, events.BucketMeta)
	return Losses{b}, err
}

// Halted is why the scribe has halted last; ok is false where it never has.
func (l Losses) Halted(ctx context.Context) (loss Loss, ok bool, err error) {
	return l.read(ctx, lossHalted)
}

// Accepted is the loss that an operator accepted last.
func (l Losses) Accepted(ctx context.Context) (loss Loss, ok bool, err error) {
	return l.read(ctx, lossAccepted)
}

func (l Losses) read(ctx context.Context, key string) (Loss, bool, error) {
	loss, _, err := l.records.get(ctx, key)
	if errors.Is(err, ErrNotFound) {
		return Loss{}, false, nil
	}
	return loss, err == nil, err
}

// Halt tells why the scribe has halted.
func (l Losses) Halt(ctx context.Context, loss Loss) error { return l.write(ctx, lossHalted, loss) }

// Accept tells the scribe to go on from the tail.
func (l Losses) Accept(ctx context.Context, loss Loss) error {
	return l.write(ctx, lossAccepted, loss)
}

func (l Losses) write(ctx context.Context, key string, loss Loss) error {
	value, err := json.Marshal(loss)
	if err != nil {
		return fmt.Errorf("registry: encode %s: %w", key, err)
	}
	_, err = l.records.kv.Put(ctx, key, value)
	return l.records.failed("write", key, err)
}
