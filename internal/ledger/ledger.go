// Package ledger appends to and reads the stream LEDGER: the history of every
// effect, once, in order, each org on its own hash chain.
//
// Entries are converted here and nowhere else: a [budget.Entry] comes from an
// outbox, its wire form is an [events.LedgerEntry]. An [Appender] writes atomic
// batches under a compare-and-set on the stream's last sequence, so two writers
// cannot fork a chain. A [Reader] gives pages in stream order. A [Verifier]
// walks one org's chain.
//
//	Appender: fresh ──Append──▶ fresh          (acknowledged)
//	                └─Append──▶ unsure         (conflict, time-out)
//	          unsure ─Resync──▶ fresh          (mine landed, nothing landed, or
//	                                            another writer went on from my head)
//	                 └─Resync─▶ ErrBehind, ErrForked: halt
package ledger

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"

	"tallystick/pkg/events"
)

// Conditions that stop a writer for good: an operator has to look.
var (
	// ErrBehind: the stream ends before an entry that was acknowledged.
	ErrBehind = errors.New("the ledger ends before an acknowledged entry")
	// ErrForked: another entry stands where an acknowledged one was.
	ErrForked = errors.New("the ledger holds another entry where one was acknowledged")
)

// ErrUnsure: the outcome of an append is unknown, or another writer was
// faster. Resync before the next append.
var ErrUnsure = errors.New("append not confirmed")

// Head is the last entry of the stream: its stream sequence and hash. The zero
// Head is the head of an empty stream.
type Head struct {
	StreamSeq uint64
	Hash      Hash
}

// Ledger is the stream LEDGER.
type Ledger struct {
	js     jetstream.JetStream
	stream jetstream.Stream
}

// Open binds to the stream. It does not create it.
func Open(ctx context.Context, js jetstream.JetStream) (*Ledger, error) {
	return open(ctx, js, events.StreamLedger)
}

// OpenMirror binds to the copy in account AUDIT, which can only be read.
func OpenMirror(ctx context.Context, js jetstream.JetStream) (*Ledger, error) {
	return open(ctx, js, events.StreamMirror)
}

func open(ctx context.Context, js jetstream.JetStream, name string) (*Ledger, error) {
	stream, err := js.Stream(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", name, err)
	}
	if stream.CachedInfo().Config.AllowDirect {
		return nil, fmt.Errorf("stream %s allows direct gets: followers could answer with an old tail", name)
	}
	return &Ledger{js: js, stream: stream}, nil
}

// Config is the stream's configuration, asked of the server now.
func (l *Ledger) Config(ctx context.Context) (jetstream.StreamConfig, error) {
	info, err := l.stream.Info(ctx)
	if err != nil {
		return jetstream.StreamConfig{}, fmt.Errorf("configuration of the ledger: %w", err)
	}
	return info.Config, nil
}

// Tail reads the stream's last entry from the leader; ok is false where the
// stream is empty.
func (l *Ledger) Tail(ctx context.Context) (m Message, ok bool, err error) {
	return l.last(ctx, ">")
}

// OrgTail reads the last entry of an org.
func (l *Ledger) OrgTail(ctx context.Context, org string) (m Message, ok bool, err error) {
	return l.last(ctx, events.LedgerOf(org))
}

func (l *Ledger) last(ctx context.Context, subject string) (Message, bool, error) {
	raw, err := l.stream.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return Message{}, false, nil
	}
	if err != nil {
		return Message{}, false, fmt.Errorf("last entry of %s: %w", subject, err)
	}
	m, err := fromRaw(raw)
	return m, err == nil, err
}

// At reads the entry with a stream sequence; ok is false where there is none.
func (l *Ledger) At(ctx context.Context, streamSeq uint64) (m Message, ok bool, err error) {
	raw, err := l.stream.GetMsg(ctx, streamSeq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return Message{}, false, nil
	}
	if err != nil {
		return Message{}, false, fmt.Errorf("entry %d: %w", streamSeq, err)
	}
	m, err = fromRaw(raw)
	return m, err == nil, err
}

// Covers checks that the stream still holds an acknowledged entry. It returns
// an error that wraps ErrBehind or ErrForked where it does not.
func (l *Ledger) Covers(ctx context.Context, anchor Head) error {
	if anchor.StreamSeq == 0 {
		return nil
	}
	tail, _, err := l.Tail(ctx)
	if err != nil {
		return err
	}
	if tail.StreamSeq < anchor.StreamSeq {
		return fmt.Errorf("%w: tail %d, acknowledged %d", ErrBehind, tail.StreamSeq, anchor.StreamSeq)
	}
	m, ok, err := l.At(ctx, anchor.StreamSeq)
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("%w: entry %d is gone", ErrBehind, anchor.StreamSeq)
	}
	if m.Hash != anchor.Hash {
		return fmt.Errorf("%w: entry %d", ErrForked, anchor.StreamSeq)
	}
	return nil
}

func fromRaw(raw *jetstream.RawStreamMsg) (Message, error) {
	return newMessage(raw.Sequence, raw.Subject, raw.Header.Get, raw.Data)
}

// newMessage reads the chain headers. Headers that are absent or malformed
// are zero values: a verifier has to see such an entry, not lose it.
func newMessage(streamSeq uint64, subject string, header func(string) string, body []byte) (Message, error) {
	m := Message{StreamSeq: streamSeq, Subject: subject, Body: body, Positions: header(events.HeaderPositions)}
	m.Seq, _ = strconv.ParseUint(header(events.HeaderSeq), 10, 64)
	m.Prev, m.Hash = parseLink(header(events.HeaderPrev), header(events.HeaderHash))
	return m, nil
}
