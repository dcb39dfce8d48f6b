package reconciler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"tallystick/internal/ledger"
	"tallystick/pkg/events"
)

// headEvery is how often changed heads are told, headAtLeast the others.
const (
	headEvery   = 5 * time.Second
	headAtLeast = time.Minute
)

// heads are the last entries seen, by org. They have a lock of their own: what
// tells of them must not wait for a rebuild.
type heads struct {
	mu   sync.Mutex
	last map[string]ledger.Message
}

func (h *heads) add(org string, m ledger.Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last[org] = m
}

func (h *heads) all() map[string]ledger.Message {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.last)
}

// told is what was last said of an org.
type told struct {
	seq uint64
	at  time.Time
}

// tellHeads publishes the head of every chain that has changed, or of which
// nothing was said for a while.
func (r *Reconciler) tellHeads(ctx context.Context, said map[string]told) error {
	now, err := r.cfg.Store.Now(ctx)
	if err != nil {
		return err
	}
	waiting := map[int]map[string]int64{}
	var errs []error
	for org, m := range r.heads.all() {
		if said[org].seq == m.Seq && now.Sub(said[org].at) < headAtLeast {
			continue
		}
		e, err := ledger.Decode(m.Body)
		if err != nil {
			continue // counted and reported when it was folded
		}
		p := r.cfg.Store.Partition(org)
		if waiting[p] == nil {
			if waiting[p], err = r.waiting(ctx, p); err != nil {
				return err
			}
		}
		err = r.cfg.Events.Publish(ctx, events.LedgerHead{
			EventHead: events.NewEventHead(events.EventLedgerHead, fmt.Sprintf("head-%s-%d-%d", org, m.Seq, now.UnixMilli()), org, now),
			Seq:       m.Seq, Hash: m.Hash.String(), EntryAt: events.FormatTime(e.At), OutboxLag: waiting[p][org],
		})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		said[org] = told{m.Seq, now}
	}
	return errors.Join(errs...)
}

// waiting counts a partition's outbox entries that the ledger has not got, per
// org, as far as one page goes.
func (r *Reconciler) waiting(ctx context.Context, partition int) (map[string]int64, error) {
	r.mu.Lock()
	after := r.fold.positions[partition]
	r.mu.Unlock()
	page, err := r.cfg.Store.OutboxRead(ctx, partition, after, readMax)
	if err != nil {
		return nil, err
	}
	counts := map[string]int64{}
	for _, e := range page.Entries {
		counts[e.Org]++
	}
	return counts, nil
}
