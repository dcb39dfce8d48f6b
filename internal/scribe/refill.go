package scribe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"tallystick/internal/ledger"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
	"tallystick/pkg/redisx"
)

// refill writes again what the ledger has lost since target was acknowledged,
// if the outboxes still have all of it. Nothing is written before it is proven
// that the chains meet target: as many entries as are lost, and its hash. An
// org's chain is then bit by bit what it was; entries of several partitions
// may stand in another order between each other than they did.
func (c *carrier) refill(ctx context.Context, target ledger.Head, anchors []redisx.Anchor) error {
	if c.out.Skipped() {
		return c.gone("the server dropped entries and counts on behind them, so they cannot be put back in their place")
	}
	lost := int(target.StreamSeq - c.out.Head().StreamSeq)
	entries, err := c.kept(ctx, lost, target, anchors)
	if err != nil {
		return err
	}
	if len(entries) != lost {
		return c.gone("the outboxes hold %d of the %d entries that are lost", len(entries), lost)
	}
	links, err := c.out.Plan(ctx, entries)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(links, func(l ledger.Link) bool { return l.Hash == target.Hash })
	if at < 0 {
		return c.gone("the outboxes hold other entries than the ledger had")
	}
	p := entries[at].Partition
	if slices.ContainsFunc(entries[at+1:], func(e budget.Entry) bool { return e.Partition == p }) {
		return c.gone("the entry that was acknowledged would not be the last")
	}
	// It was the last, so it comes last again.
	last := entries[at]
	entries = append(slices.Delete(entries, at, at+1), last)
	from := c.out.Head().StreamSeq
	c.cfg.Log.Error().Uint64("from", from+1).Uint64("to", target.StreamSeq).
		Msg("ALARM: the ledger lost its end; it is written again from the outboxes")
	if foreign, err := c.append(ctx, entries); err != nil || foreign {
		return errors.Join(err, errAgain)
	}
	if err := c.cfg.Ledger.Covers(ctx, target); err != nil {
		return err
	}
	c.metrics.refilled.Add(float64(len(entries)))
	c.tellRefilled(ctx, links, from, target)
	return nil
}

// errAgain begins a session anew: another scribe is at the same work.
var errAgain = errors.New("scribe: another scribe writes")

// kept reads what the outboxes have of the entries between the ledger's tail
// and target, in the order of their ids: up to the position that Redis
// remembers of the ledger, and where the file remembers more, from there on.
func (c *carrier) kept(ctx context.Context, lost int, target ledger.Head, anchors []redisx.Anchor) ([]budget.Entry, error) {
	var sure, more []budget.Entry
	remembered := uint64(0)
	for _, a := range anchors {
		remembered = max(remembered, a.StreamSeq)
	}
	for p, a := range anchors {
		wanted := remembered < target.StreamSeq
		for after := c.out.Position(p); len(sure)+len(more) <= 2*lost+readMax; {
			if !wanted && ledger.CompareIDs(after, a.Position) >= 0 {
				break
			}
			page, err := c.cfg.Store.OutboxRead(ctx, p, after, readMax)
			if err != nil {
				return nil, err
			}
			if len(page.Entries)+len(page.Corrupt) == 0 {
				break
			}
			for _, e := range page.Entries {
				after = later(after, e.OutboxID)
				if ledger.CompareIDs(e.OutboxID, a.Position) <= 0 {
					sure = append(sure, e)
				} else {
					more = append(more, e)
				}
			}
			for _, e := range page.Corrupt {
				after = later(after, e.OutboxID)
			}
		}
	}
	if remembered < target.StreamSeq && len(sure) < lost {
		sortEntries(more)
		sure = append(sure, more[:min(len(more), lost-len(sure))]...)
	}
	sortEntries(sure)
	return sure, nil
}

func sortEntries(entries []budget.Entry) {
	slices.SortStableFunc(entries, func(a, b budget.Entry) int {
		return cmp.Or(ledger.CompareIDs(a.OutboxID, b.OutboxID), cmp.Compare(a.Partition, b.Partition))
	})
}

// tellRefilled publishes, per org, which of its entries were written again.
func (c *carrier) tellRefilled(ctx context.Context, links []ledger.Link, from uint64, target ledger.Head) {
	first, last := map[string]uint64{}, map[string]ledger.Link{}
	for _, l := range links {
		if first[l.Org] == 0 {
			first[l.Org] = l.Seq
		}
		last[l.Org] = l
	}
	for org, l := range last {
		id := fmt.Sprintf("refilled-%s-%d-%d", org, first[org], target.StreamSeq)
		c.tell(ctx, events.EventLedgerRefilled, id, org, func(head events.EventHead) events.EventMessage {
			return events.LedgerRefilled{EventHead: head, From: first[org], To: l.Seq, Hash: l.Hash.String(), AfterStreamSeq: from}
		})
	}
}
