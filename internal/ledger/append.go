package ledger

import (
	"context"
	"fmt"
	"maps"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"tallystick/pkg/budget"
	"tallystick/pkg/events"
)

// MaxBatch is the largest atomic batch the server takes.
const MaxBatch = 1000

// Appender writes batches of entries. It is used by one goroutine; several
// appenders, also in other processes, exclude each other by compare-and-set.
type Appender struct {
	l         *Ledger
	head      Head
	last      uint64          // the stream's last sequence, above head where entries are gone
	links     map[string]link // per org, read on first use
	positions Positions

	// unsure is the state after a batch whose outcome is not known.
	unsure *batchState

	msgs  []*nats.Msg // reused: their headers are the dearest allocation
	arena []byte      // bodies of one batch
}

// link is the end of one org's chain.
type link struct {
	seq  uint64
	hash Hash
	text string // hash in hex, the next entry's Tally-Prev
}

// batchState is what the appender becomes when a batch is on the ledger.
type batchState struct {
	head      Head
	links     map[string]link
	positions Positions
}

// Resume makes an appender that continues at the stream's tail.
func (l *Ledger) Resume(ctx context.Context, partitions int) (*Appender, error) {
	a := &Appender{l: l, links: map[string]link{}, positions: make(Positions, partitions)}
	info, err := l.stream.Info(ctx)
	if err != nil {
		return a, fmt.Errorf("the ledger's last sequence: %w", err)
	}
	a.last = info.State.LastSeq
	tail, ok, err := l.Tail(ctx)
	if err != nil || !ok {
		return a, err
	}
	return a, a.adopt(ctx, tail)
}

// Head is the last entry known to be on the ledger.
func (a *Appender) Head() Head { return a.head }

// Skipped reports whether the stream counts on behind its last entry: a server
// that found a bad record drops entries and keeps the count.
func (a *Appender) Skipped() bool { return a.last > a.head.StreamSeq }

// Position is the outbox id up to which a partition is on the ledger; "" for
// nothing.
func (a *Appender) Position(partition int) string { return a.positions[partition] }

// Append writes up to MaxBatch entries, all or nothing. Per partition they
// follow the position in outbox order. An error that wraps ErrUnsure means
// that they may or may not be there: Resync, then continue after Position.
func (a *Appender) Append(ctx context.Context, entries []budget.Entry) error {
	if a.unsure != nil {
		return fmt.Errorf("%w: resync first", ErrUnsure)
	}
	if len(entries) == 0 || len(entries) > MaxBatch {
		return fmt.Errorf("a batch has 1 to %d entries, not %d", MaxBatch, len(entries))
	}
	next, err := a.prepare(ctx, entries)
	if err != nil {
		return err
	}
	seq, err := a.publish(ctx, a.msgs[:len(entries)])
	if err != nil {
		a.unsure = next
		return fmt.Errorf("%w: batch of %d after %d: %w", ErrUnsure, len(entries), a.head.StreamSeq, err)
	}
	if seq != next.head.StreamSeq {
		a.unsure = next
		return fmt.Errorf("%w: acknowledged at %d, expected %d", ErrUnsure, seq, next.head.StreamSeq)
	}
	a.commit(next)
	return nil
}

// publish sends the batch and gives its last stream sequence. One entry needs
// no batch, which costs the server a millisecond.
func (a *Appender) publish(ctx context.Context, msgs []*nats.Msg) (uint64, error) {
	if len(msgs) > 1 {
		ack, err := jetstreamext.PublishMsgBatch(ctx, a.l.js, msgs, jetstreamext.BatchFlowControl{})
		if err != nil {
			return 0, err
		}
		return ack.Sequence, nil
	}
	for _, h := range [...]string{jetstreamext.BatchIDHeader, jetstreamext.BatchSeqHeader, jetstreamext.BatchCommitHeader} {
		delete(msgs[0].Header, h)
	}
	ack, err := a.l.js.PublishMsg(ctx, msgs[0])
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

// Resync finds out what became of an unsure append by reading the tail. It
// reports whether another writer has been at work. An error that wraps
// ErrBehind or ErrForked is final.
func (a *Appender) Resync(ctx context.Context) (foreign bool, err error) {
	tail, ok, err := a.l.Tail(ctx)
	if err != nil {
		return false, err
	}
	if !ok && a.head.StreamSeq == 0 {
		a.unsure = nil
		return false, nil
	}
	now := Head{tail.StreamSeq, tail.Hash}
	switch {
	case a.unsure != nil && now == a.unsure.head:
		a.commit(a.unsure)
		return false, nil
	case now == a.head:
		a.unsure = nil
		return false, nil
	}
	if err := a.l.Covers(ctx, a.head); err != nil {
		return false, err
	}
	clear(a.links)
	a.unsure = nil
	return true, a.adopt(ctx, tail)
}

func (a *Appender) adopt(ctx context.Context, tail Message) error {
	positions, err := a.l.positions(ctx, tail, len(a.positions))
	if err != nil {
		return fmt.Errorf("positions at entry %d: %w", tail.StreamSeq, err)
	}
	a.head, a.positions = Head{tail.StreamSeq, tail.Hash}, positions
	return nil
}

func (a *Appender) commit(next *batchState) {
	a.head, a.positions, a.unsure = next.head, next.positions, nil
	maps.Copy(a.links, next.links)
}

// prepare turns entries into the messages of one batch.
func (a *Appender) prepare(ctx context.Context, entries []budget.Entry) (*batchState, error) {
	next := &batchState{links: map[string]link{}, positions: append(Positions(nil), a.positions...)}
	for len(a.msgs) < len(entries) {
		a.msgs = append(a.msgs, newMsg())
	}
	bounds := make([]int, len(entries)+1)
	a.arena = a.arena[:0]
	for i := range entries {
		e := &entries[i]
		if CompareIDs(e.OutboxID, next.positions[e.Partition]) <= 0 {
			return nil, fmt.Errorf("entry %s is not after position %q", EntryID(e.Partition, e.OutboxID), next.positions[e.Partition])
		}
		next.positions[e.Partition] = e.OutboxID
		from, err := a.link(ctx, next, e.Org)
		if err != nil {
			return nil, err
		}
		a.arena = Encode(a.arena, e)
		bounds[i+1] = len(a.arena)
		to := link{seq: from.seq + 1}
		to.hash = events.EntryHash(from.hash, to.seq, a.arena[bounds[i]:])
		to.text = to.hash.String()
		next.links[e.Org] = to
		next.head.Hash = to.hash
		fill(a.msgs[i], e, from, to)
	}
	for i := range entries {
		a.msgs[i].Data = a.arena[bounds[i]:bounds[i+1]:bounds[i+1]]
	}
	expected := max(a.head.StreamSeq, a.last)
	next.head.StreamSeq = expected + uint64(len(entries))
	a.msgs[0].Header[jetstream.ExpectedLastSeqHeader] = []string{strconv.FormatUint(expected, 10)}
	a.msgs[len(entries)-1].Header[events.HeaderPositions] = []string{next.positions.String()}
	return next, nil
}

// link is the end of an org's chain: within this batch, else as known, else as
// the ledger has it.
func (a *Appender) link(ctx context.Context, next *batchState, org string) (link, error) {
	if l, ok := next.links[org]; ok {
		return l, nil
	}
	if l, ok := a.links[org]; ok {
		return l, nil
	}
	m, _, err := a.l.OrgTail(ctx, org)
	if err != nil {
		return link{}, err
	}
	l := link{m.Seq, m.Hash, m.Hash.String()}
	a.links[org] = l
	return l, nil
}

func newMsg() *nats.Msg {
	return &nats.Msg{Header: nats.Header{events.HeaderSeq: {""}, events.HeaderPrev: {""}, events.HeaderHash: {""}}}
}

func fill(m *nats.Msg, e *budget.Entry, from, to link) {
	m.Subject = events.Ledger(e.Org, events.LedgerKind(e.Kind))
	h := m.Header
	h[events.HeaderSeq][0] = strconv.FormatUint(to.seq, 10)
	h[events.HeaderPrev][0] = from.text
	h[events.HeaderHash][0] = to.text
	delete(h, events.HeaderPositions)
	delete(h, jetstream.ExpectedLastSeqHeader)
	if e.Trace == "" {
		delete(h, events.HeaderTrace)
		return
	}
	h[events.HeaderTrace] = []string{e.Trace}
}
