package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// followFloor tells the backlog what other workers of the role have finished.
func (w *Worker) followFloor(ctx context.Context, consumer jetstream.Consumer) {
	tick := time.NewTicker(w.cfg.FloorEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if w.backlog.idle() {
			continue
		}
		info, err := consumer.Info(ctx)
		if err != nil {
			continue // the backlog stays as it is: it errs towards refusing
		}
		w.backlog.passed(info.AckFloor.Stream)
	}
}

// purgeCommands removes from COMMANDS what every role has finished. The stream
// keeps by limits and not as a work queue, which would sync a tombstone for
// each acknowledgement.
func (w *Worker) purgeCommands(ctx context.Context) {
	tick := time.NewTicker(w.cfg.PurgeEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := w.purge(ctx); err != nil && ctx.Err() == nil {
			w.cfg.Log.Warn().Err(err).Msg("COMMANDS not purged")
		}
	}
}

// purge removes everything up to the lowest floor.
func (w *Worker) purge(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.PublishTimeout)
	defer cancel()
	stream, err := w.cfg.JetStream.Stream(ctx, w.cfg.Stream)
	if err != nil {
		return fmt.Errorf("stream %s: %w", w.cfg.Stream, err)
	}
	// The end of the stream is read before the consumers are asked.
	state := stream.CachedInfo().State
	floor := state.LastSeq
	for _, name := range w.cfg.PurgeConsumers {
		c, err := w.cfg.JetStream.Consumer(ctx, w.cfg.Stream, name)
		if err != nil {
			return fmt.Errorf("consumer %s: %w", name, err)
		}
		// A consumer with nothing to do has a floor that stands still, and
		// everything up to the end read before is behind it.
		if info := c.CachedInfo(); info.NumPending > 0 || info.NumAckPending > 0 {
			floor = min(floor, info.AckFloor.Stream)
		}
	}
	if state.Msgs == 0 || floor < state.FirstSeq {
		return nil
	}
	if err := stream.Purge(ctx, jetstream.WithPurgeSequence(floor+1)); err != nil {
		return fmt.Errorf("purge up to %d: %w", floor, err)
	}
	w.cfg.Metrics.purged.Inc()
	return nil
}
