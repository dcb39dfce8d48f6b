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

// readPage is how many messages one pull asks for; pullWait bounds how long a
// pull may take.
const (
	readPage = 1000
	pullWait = 5 * time.Second
	// idleConsumer is when the server forgets a reader that went away.
	idleConsumer = time.Minute
)

// Reader gives entries in stream order. It is used by one goroutine.
type Reader struct {
	l        *Ledger
	org      string
	after    uint64 // stream sequence of the last entry given
	consumer jetstream.Consumer
	expected uint64 // consumer sequence of the next message
}

// Reader starts after a stream sequence; org "" means every org. Close it.
func (l *Ledger) Reader(org string, after uint64) *Reader {
	return &Reader{l: l, org: org, after: after}
}

// After is the stream sequence of the last entry given.
func (r *Reader) After() uint64 { return r.after }

// Next gives the entries that are there now, up to limit; none at the end. With
// a wait it blocks that long for limit entries.
func (r *Reader) Next(ctx context.Context, limit int, wait time.Duration) ([]Message, error) {
	if r.consumer == nil {
		if err := r.open(ctx); err != nil {
			return nil, err
		}
	}
	out, err := r.fetch(ctx, min(limit, readPage), wait)
	if err != nil {
		r.consumer = nil // what came after a loss is read again
	}
	if len(out) > 0 {
		r.after = out[len(out)-1].StreamSeq
		return out, nil
	}
	return nil, err
}

func (r *Reader) fetch(ctx context.Context, limit int, wait time.Duration) (out []Message, err error) {
	var batch jetstream.MessageBatch
	if wait > 0 {
		batch, err = r.consumer.Fetch(limit, jetstream.FetchMaxWait(wait))
	} else {
		batch, err = r.consumer.FetchNoWait(limit)
	}
	if err != nil {
		return nil, fmt.Errorf("read ledger after %d: %w", r.after, err)
	}
	timeout := time.NewTimer(wait + pullWait)
	defer timeout.Stop()
	for {
		select {
		case msg, ok := <-batch.Messages():
			if !ok {
				err := batch.Error()
				if err == nil || errors.Is(err, jetstream.ErrNoMessages) || errors.Is(err, nats.ErrTimeout) {
					return out, nil
				}
				return out, fmt.Errorf("read ledger after %d: %w", r.after, err)
			}
			m, err := r.take(msg)
			if err != nil {
				return out, err
			}
			out = append(out, m)
		case <-timeout.C:
			return out, fmt.Errorf("read ledger after %d: no answer in %s", r.after, pullWait)
		case <-ctx.Done():
			return out, ctx.Err()
		}
	}
}

func (r *Reader) take(msg jetstream.Msg) (Message, error) {
	meta, err := msg.Metadata()
	if err != nil {
		return Message{}, fmt.Errorf("ledger message: %w", err)
	}
	if meta.Sequence.Consumer != r.expected {
		return Message{}, fmt.Errorf("read ledger after %d: delivery %d where %d was due", r.after, meta.Sequence.Consumer, r.expected)
	}
	r.expected++
	return newMessage(meta.Sequence.Stream, msg.Subject(), msg.Headers().Get, msg.Data())
}

func (r *Reader) open(ctx context.Context) error {
	filter := ""
	if r.org != "" {
		filter = events.LedgerOf(r.org)
	}
	c, err := r.l.stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		AckPolicy:         jetstream.AckNonePolicy,
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       r.after + 1,
		FilterSubject:     filter,
		MemoryStorage:     true,
		Replicas:          1,
		InactiveThreshold: idleConsumer,
	})
	if err != nil {
		return fmt.Errorf("read ledger after %d: %w", r.after, err)
	}
	r.consumer, r.expected = c, 1
	return nil
}

// Close lets the server forget the reader; it would do so by itself later.
func (r *Reader) Close(ctx context.Context) {
	if r.consumer == nil {
		return
	}
	_ = r.l.stream.DeleteConsumer(ctx, r.consumer.CachedInfo().Name)
	r.consumer = nil
}

// Walk gives every entry of an org (every org where it is "") after a stream
// sequence and up to what was the end when it began.
func (l *Ledger) Walk(ctx context.Context, org string, after uint64, visit func(Message) error) error {
	last := l.Tail
	if org != "" {
		last = func(ctx context.Context) (Message, bool, error) { return l.OrgTail(ctx, org) }
	}
	tail, _, err := last(ctx)
	if err != nil {
		return err
	}
	r := l.Reader(org, after)
	defer r.Close(context.WithoutCancel(ctx))
	limit, wait := readPage, time.Duration(0)
	for r.After() < tail.StreamSeq {
		page, err := r.Next(ctx, limit, wait)
		if err != nil {
			return err
		}
		// A consumer on another server may lag behind the stream's leader.
		limit, wait = readPage, 0
		if len(page) == 0 {
			limit, wait = 1, 500*time.Millisecond
		}
		for _, m := range page {
			if m.StreamSeq > tail.StreamSeq {
				return nil
			}
			if err := visit(m); err != nil {
				return err
			}
		}
	}
	return nil
}
