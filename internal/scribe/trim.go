package scribe

import (
	"context"
	"errors"

	"tallystick/pkg/redisx"
)

// marks remember, per partition, ids of entries on the ledger at intervals, so
// that a trim knows below which id more than enough newer ones are there.
type marks []struct {
	ids   []string // one in markEvery
	count int
}

const markEvery = 500

func (m marks) add(partition int, id string) {
	t := &m[partition]
	t.count++
	if t.count%markEvery != 0 {
		return
	}
	t.ids = append(t.ids, id)
	if keep := redisx.OutboxKeptEntries/markEvery + 1; len(t.ids) > keep {
		t.ids = append(t.ids[:0], t.ids[len(t.ids)-keep:]...)
	}
}

// floor is an id with at least OutboxKeptEntries newer ones on the ledger; ""
// while there are not as many.
func (m marks) floor(partition int) string {
	t := &m[partition]
	if len(t.ids) <= redisx.OutboxKeptEntries/markEvery {
		return ""
	}
	return t.ids[0]
}

// tidy trims what was written, at intervals under load and at once when idle.
func (c *carrier) tidy(ctx context.Context, idle bool) error {
	select {
	case <-c.guardTick.C:
		if err := c.guard(ctx); err != nil {
			return err
		}
	case <-c.beatTick.C:
		return c.beat(ctx)
	default:
	}
	if len(c.dirty) == 0 {
		return nil
	}
	select {
	case <-c.trimTick.C:
	default:
		if !idle {
			return nil
		}
	}
	return c.trim(ctx)
}

// beat tells every partition where it stands, which is also how a Redis that
// lost writes is found out, and writes the anchor file.
func (c *carrier) beat(ctx context.Context) error {
	for p := range c.stored {
		c.dirty[p] = true
	}
	return errors.Join(c.trim(ctx), c.anchor.write(c.out.Head()))
}

func (c *carrier) trim(ctx context.Context) error {
	head := c.out.Head()
	trims := make([]*redisx.Trim, 0, len(c.dirty))
	for p := range c.dirty {
		trims = append(trims, &redisx.Trim{
			Partition: p, Position: c.out.Position(p), StreamSeq: head.StreamSeq, Hash: head.Hash.String(),
			Floor: c.marks.floor(p), Stored: c.stored[p],
		})
	}
	c.cfg.Store.TrimOutboxes(ctx, trims)
	var errs []error
	for _, t := range trims {
		if t.Err != nil {
			errs = append(errs, t.Err)
			continue
		}
		delete(c.dirty, t.Partition)
		switch t.Outcome {
		case redisx.TrimDone:
			c.stored[t.Partition] = head.StreamSeq
		case redisx.TrimLost:
			c.metrics.lost.Inc()
			c.cfg.Log.Error().Int("partition", t.Partition).Str("position", t.Position).
				Msg("ALARM: Redis knows less than the ledger; the partition is fenced until it is rebuilt")
		case redisx.TrimStale, redisx.TrimFenced, redisx.TrimEmptied:
			c.stored[t.Partition] = 0
		}
	}
	return errors.Join(errs...)
}
