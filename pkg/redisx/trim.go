package redisx

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// OutboxKept is how long an entry that is on the ledger stays in the outbox,
// and OutboxKeptEntries how many do at most: enough to refill a ledger that
// lost its tail.
const (
	OutboxKept        = 5 * time.Minute
	OutboxKeptEntries = 20_000
)

// TrimOutcome is what Trim found.
type TrimOutcome string

// Outcomes of Trim.
const (
	TrimDone    TrimOutcome = "trimmed"
	TrimStale   TrimOutcome = "stale"   // another scribe is further
	TrimLost    TrimOutcome = "lost"    // Redis lost writes; the partition is fenced now
	TrimFenced  TrimOutcome = "fenced"  // it was already
	TrimEmptied TrimOutcome = "emptied" // the partition's epoch is gone
)

// Trim tells a partition how far it is on the ledger.
type Trim struct {
	Partition int
	Position  string // outbox id of the last entry on the ledger; "" for none
	StreamSeq uint64 // the ledger's last entry
	Hash      string
	Floor     string // entries below may be dropped; "" for by age alone
	Stored    uint64 // the StreamSeq of the caller's last Trim; 0 for none

	// Outcome and Err are set by TrimOutboxes.
	Outcome TrimOutcome
	Err     error
}

func (t *Trim) failed(err error) { t.Err = err }

func (t *Trim) reply(values []string) (bool, error) {
	t.Outcome = TrimOutcome(values[0])
	switch t.Outcome {
	case TrimDone, TrimStale, TrimLost, TrimFenced, TrimEmptied:
		return false, nil
	}
	return false, fmt.Errorf("redisx: trim answered %q", values[0])
}

type trimCall struct {
	*Trim
	store *Store
}

func (c trimCall) command() (*script, []string, []any) {
	k := &c.store.partitions[c.Partition]
	return c.store.scripts["trim"], []string{k.outbox, k.scribe, k.revoked, k.epoch}, []any{
		c.Position, strconv.FormatUint(c.StreamSeq, 10), c.Hash, c.Floor,
		strconv.FormatUint(c.Stored, 10), strconv.FormatInt(OutboxKept.Milliseconds(), 10),
	}
}

// TrimOutboxes tells partitions how far they are on the ledger, drops what is
// and needs no longer be kept, and fences a partition that knows less than the
// ledger. Each trim carries its own outcome.
func (s *Store) TrimOutboxes(ctx context.Context, trims []*Trim) {
	b := s.Batch()
	for _, t := range trims {
		b.calls = append(b.calls, trimCall{t, s})
	}
	b.Run(ctx)
}

// Anchor is what Redis remembers of the ledger's end, for one partition.
type Anchor struct {
	Position  string
	StreamSeq uint64
	Hash      string
}

// Anchors reads the anchor of every partition.
func (s *Store) Anchors(ctx context.Context) ([]Anchor, error) {
	pipe := s.client.Pipeline()
	for p := range s.partitions {
		pipe.HMGet(ctx, s.partitions[p].scribe, "position", "stream_seq", "hash")
	}
	sent, err := pipe.Exec(ctx)
	if err != nil {
		return nil, redisError(err)
	}
	out := make([]Anchor, len(sent))
	for p, cmd := range sent {
		row, err := texts(cmd)
		if err != nil {
			return nil, fmt.Errorf("anchor of partition %d: %w", p, err)
		}
		out[p] = Anchor{Position: row[0], Hash: row[2]}
		out[p].StreamSeq, _ = strconv.ParseUint(row[1], 10, 64)
	}
	return out, nil
}
