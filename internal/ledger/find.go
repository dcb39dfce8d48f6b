package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"tallystick/pkg/events"
)

// Find reads the entry with a sequence of an org; ok is false where there is
// none. An org's sequences ascend along the stream, so it halves the stream:
// a few dozen reads, however long the ledger is.
func (l *Ledger) Find(ctx context.Context, org string, seq uint64) (m Message, ok bool, err error) {
	tail, found, err := l.OrgTail(ctx, org)
	if err != nil || !found || seq == 0 || seq > tail.Seq {
		return Message{}, false, err
	}
	for low, high := uint64(1), tail.StreamSeq; low <= high; {
		middle := low + (high-low)/2
		m, ok, err := l.orgAt(ctx, org, middle)
		switch {
		case err != nil:
			return Message{}, false, err
		case ok && m.Seq == seq:
			return m, true, nil
		case ok && m.Seq < seq:
			low = m.StreamSeq + 1
		default:
			high = middle - 1
		}
	}
	return Message{}, false, nil
}

// orgAt reads an org's first entry at or after a stream sequence.
func (l *Ledger) orgAt(ctx context.Context, org string, streamSeq uint64) (m Message, ok bool, err error) {
	raw, err := l.stream.GetMsg(ctx, streamSeq, jetstream.WithGetMsgSubject(events.LedgerOf(org)))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return Message{}, false, nil
	}
	if err != nil {
		return Message{}, false, fmt.Errorf("entry of %s after %d: %w", org, streamSeq, err)
	}
	m, err = fromRaw(raw)
	return m, err == nil, err
}
