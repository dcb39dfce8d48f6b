package redisx

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"tallystick/pkg/budget"
)

// GapArgs is an accepted loss of one org's ledger entries. Fence is the
// caller's own; Moves are what no entry says.
type GapArgs struct {
	Org, Fence string
	Moves      []budget.Move
	Detail     GapDetail
}

// GapDetail is the entry's detail. AfterSeq is the last sequence of the org
// that is there; the anchor is the ledger's last entry that is known to have
// been there.
type GapDetail struct {
	AfterSeq        uint64 `json:"after_seq"`
	LostToStreamSeq uint64 `json:"lost_to_stream_seq"`
	AnchorHash      string `json:"anchor_hash"`
	By              string `json:"by"`
	Reason          string `json:"reason"`
}

// Gap writes a gap entry and moves nothing: lua/gap.lua.
func (s *Store) Gap(ctx context.Context, a GapArgs) error {
	c := &gapCall{store: s, args: a}
	s.one(ctx, c)
	return c.err
}

type gapCall struct {
	store *Store
	args  GapArgs
	err   error
}

func (c *gapCall) failed(err error) { c.err = err }

func (c *gapCall) command() (*script, []string, []any) {
	a, k := &c.args, c.store.keysOf(c.args.Org)
	path, words := make([]budget.Limit, len(a.Moves)), make([]string, len(a.Moves))
	for i, m := range a.Moves {
		path[i].LimitID = m.LimitID
		words[i] = fmt.Sprintf("h%+ds%+dw%+dc%+da%+d", m.Held, m.Spent, m.Withheld, m.Cap, m.Adj)
	}
	return c.store.scripts["gap"], []string{k.revoked, k.epoch, k.outbox},
		[]any{a.Fence, strings.Join(words, " "), marshalled(a.Detail), subjectLine(a.Org, "", limitsLine(path))}
}

func (c *gapCall) reply(v []string) (bool, error) {
	if v[0] != "written" {
		return false, unexpected("gap", v)
	}
	return false, nil
}

// Rewind makes a partition remember an earlier end of the ledger: what came
// after it is lost, and that was accepted.
func (s *Store) Rewind(ctx context.Context, partition int, a Anchor) error {
	return redisError(s.client.HSet(ctx, s.partitions[partition].scribe, "position", a.Position,
		"stream_seq", strconv.FormatUint(a.StreamSeq, 10), "hash", a.Hash).Err())
}
