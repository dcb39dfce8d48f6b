package ledger

import (
	"context"
	"fmt"

	"tallystick/pkg/budget"
	"tallystick/pkg/events"
)

// Link is an entry's place in its org's chain.
type Link struct {
	Org  string
	Seq  uint64
	Hash Hash
}

// Plan works out the links that entries would get, and writes nothing.
func (a *Appender) Plan(ctx context.Context, entries []budget.Entry) ([]Link, error) {
	next, out := &batchState{links: map[string]link{}}, make([]Link, len(entries))
	var body []byte
	for i := range entries {
		e := &entries[i]
		from, err := a.link(ctx, next, e.Org)
		if err != nil {
			return nil, err
		}
		body = Encode(body[:0], e)
		to := link{seq: from.seq + 1, hash: events.EntryHash(from.hash, from.seq+1, body)}
		next.links[e.Org] = to
		out[i] = Link{e.Org, to.seq, to.hash}
	}
	return out, nil
}

// positions are what the outboxes had given to the ledger at its tail. The
// last entry of a batch says so itself. Where the end of a batch is gone,
// those before it do, and their ids.
func (l *Ledger) positions(ctx context.Context, tail Message, partitions int) (Positions, error) {
	newest, names, m := make(Positions, partitions), Names{}, tail
	for range MaxBatch {
		if m.Positions != "" {
			p, err := ParsePositions(m.Positions, partitions)
			for i := range p {
				if CompareIDs(p[i], newest[i]) < 0 {
					p[i] = newest[i]
				}
			}
			return p, err
		}
		e, err := names.Moves(m.Body)
		if err != nil {
			return nil, err
		}
		if e.Partition >= partitions {
			return nil, fmt.Errorf("entry %d is of partition %d of %d", m.StreamSeq, e.Partition, partitions)
		}
		if CompareIDs(newest[e.Partition], e.OutboxID) < 0 {
			newest[e.Partition] = e.OutboxID
		}
		if m.StreamSeq == 1 {
			return newest, nil
		}
		before, ok, err := l.At(ctx, m.StreamSeq-1)
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, fmt.Errorf("entry %d is gone, and %d is not the first of a batch", m.StreamSeq-1, m.StreamSeq)
		}
		m = before
	}
	return nil, fmt.Errorf("entry %d is the ledger's last but neither it nor those before it carry positions", tail.StreamSeq)
}
