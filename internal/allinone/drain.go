package allinone

import (
	"context"
	"time"

	"tallystick/internal/ledger"
	"tallystick/pkg/redisx"
)

// emptyOutboxes waits until the scribe has carried everything to the ledger.
// What it cannot carry in time stays in Redis and is carried after the next
// start, so running out of time is worth a line in the log and no more.
func (s *System) emptyOutboxes() error {
	i := s.index("scribe")
	if i < 0 || s.members[i].done == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		behind, err := behind(ctx, s.members[i].shell.Store)
		if err == nil && behind == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			s.log.Warn().Err(err).Int("partitions", behind).Msg("outboxes are not empty; the next start carries the rest")
			return nil
		case <-s.members[i].done:
			return nil
		case <-poll.C:
		}
	}
}

// behind counts the partitions whose outbox has entries that are not on the
// ledger.
func behind(ctx context.Context, store *redisx.Store) (int, error) {
	last, err := store.OutboxLast(ctx)
	if err != nil {
		return 0, err
	}
	anchors, err := store.Anchors(ctx)
	if err != nil {
		return 0, err
	}
	n := 0
	for p, id := range last {
		if id != "" && (anchors[p].Position == "" || ledger.CompareIDs(anchors[p].Position, id) < 0) {
			n++
		}
	}
	return n, nil
}

func (s *System) index(worker string) int {
	for i, m := range s.members {
		if m.worker == worker {
			return i
		}
	}
	return -1
}
