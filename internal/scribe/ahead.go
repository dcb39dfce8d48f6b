package scribe

import (
	"context"
	"slices"
	"time"

	"tallystick/internal/ledger"
	"tallystick/pkg/redisx"
)

// ahead reads the outboxes, and where they are full one page ahead: Redis and
// the parsing are at work while the ledger stores the page before.
type ahead struct {
	store *redisx.Store
	after []string // per partition, what has been read
	next  chan fetched
}

type fetched struct {
	page redisx.OutboxPage
	err  error
}

// page gives the next page, waiting up to block for the first entry. The one
// after it is on its way where this one was large.
func (a *ahead) page(ctx context.Context, block time.Duration) (redisx.OutboxPage, error) {
	f := fetched{}
	if a.next != nil {
		f, a.next = <-a.next, nil
	} else {
		f.page, f.err = a.store.OutboxWait(ctx, a.after, readMax, block)
	}
	if f.err != nil {
		return f.page, f.err
	}
	for _, e := range f.page.Entries {
		a.after[e.Partition] = later(a.after[e.Partition], e.OutboxID)
	}
	for _, e := range f.page.Corrupt {
		a.after[e.Partition] = later(a.after[e.Partition], e.OutboxID)
	}
	if len(f.page.Entries) >= smallBatch {
		a.start(ctx)
	}
	return f.page, nil
}

func (a *ahead) start(ctx context.Context) {
	next, after := make(chan fetched, 1), slices.Clone(a.after)
	a.next = next
	go func() {
		page, err := a.store.OutboxWait(ctx, after, readMax, 0)
		next <- fetched{page, err}
	}()
}

// restart forgets what was read and goes on after the given positions.
func (a *ahead) restart(after []string) {
	a.stop()
	a.after = after
}

// stop waits for a read that is on its way.
func (a *ahead) stop() {
	if a.next != nil {
		<-a.next
		a.next = nil
	}
}

func later(a, b string) string {
	if ledger.CompareIDs(a, b) < 0 {
		return b
	}
	return a
}
