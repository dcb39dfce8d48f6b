package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"tallystick/pkg/budget"
	"tallystick/pkg/redisx"
)

const (
	groupScale  = "outstanding"
	scaleFew    = 1000 // what many are compared with
	scaleBatch  = 256  // what a worker sends at once
	scaleRounds = 8    // bursts measured at each size
	scaleBurst  = 10   // batches of a burst
	scaleTurn   = 256  // executions of one reaper turn
	fillers     = 4
	outboxTrim  = 100_000 // entries before the outbox is emptied, as a scribe would
	resolved    = 50_000
	bytesPer    = 1500 // memory a reservation may take, its outbox entry included
)

// scale compares reserve and a reaper's turn with a thousand and with a
// million outstanding reservations.
func (b *run) scale(ctx context.Context) error {
	if free := memoryFree(); free > 0 && free < int64(b.cfg.Outstanding)*bytesPer {
		b.add(Row{Group: groupScale, Name: "many outstanding reservations", Note: fmt.Sprintf("skipped: %d MB of memory are free", free>>20)})
		return nil
	}
	if err := b.resolvedBytes(ctx); err != nil {
		return err
	}
	few, err := b.atSize(ctx, scaleFew)
	if err != nil {
		return err
	}
	if err := b.redis.reset(ctx); err != nil {
		return err
	}
	empty, err := b.usedMemory(ctx)
	if err != nil {
		return err
	}
	b.say("%s: making %d reservations", groupScale, b.cfg.Outstanding)
	if err := b.fill(ctx, b.cfg.Outstanding); err != nil {
		return err
	}
	full, err := b.usedMemory(ctx)
	if err != nil {
		return err
	}
	many, err := b.atSize(ctx, b.cfg.Outstanding)
	if err != nil {
		return err
	}
	for i, name := range []string{"reserve", "one reaper turn"} {
		b.scaled = append(b.scaled, Finding{
			fmt.Sprintf("%s with %d outstanding against %d, Redis CPU", name, b.cfg.Outstanding, scaleFew),
			ratio(many[i], few[i]), "×", "≤ 2",
		})
	}
	b.scaled = append(b.scaled, Finding{"memory of an outstanding reservation", float64(full-empty) / float64(b.cfg.Outstanding), "bytes", ""})
	return b.redis.reset(ctx)
}

func (b *run) usedMemory(ctx context.Context) (int64, error) {
	text, err := info(ctx, b.redis.client, "memory", "used_memory")
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}

// fill reserves n times and empties the outbox meanwhile, as a scribe would.
func (b *run) fill(ctx context.Context, n int) error {
	for n > 0 {
		part := min(n, outboxTrim)
		if err := b.fillPart(ctx, part); err != nil {
			return err
		}
		if err := b.redis.dropOutbox(ctx); err != nil {
			return err
		}
		n -= part
	}
	return nil
}

func (b *run) fillPart(ctx context.Context, n int) error {
	keys := make(chan []string, fillers)
	errs := make(chan error, fillers)
	var running sync.WaitGroup
	for range fillers {
		running.Go(func() {
			var err error
			for batch := range keys {
				if err == nil {
					err = b.reserveBatch(ctx, batch, budget.TTLDefault*6*24)
				}
			}
			errs <- err
		})
	}
	for n > 0 {
		batch := make([]string, min(n, scaleBatch))
		for i := range batch {
			batch[i] = b.redis.nextKey()
		}
		keys <- batch
		n -= len(batch)
	}
	close(keys)
	running.Wait()
	close(errs)
	var err error
	for e := range errs {
		err = errors.Join(err, e)
	}
	return err
}

func (b *run) reserveBatch(ctx context.Context, keys []string, ttl time.Duration) error {
	batch := b.redis.store.Batch()
	sent := make([]*redisx.Pending, len(keys))
	for i, key := range keys {
		sent[i] = batch.Reserve(b.redis.reserve(key, ttl))
	}
	batch.Run(ctx)
	for _, p := range sent {
		if p.Err != nil {
			return p.Err
		}
		if p.Decision.Outcome != budget.Allowed {
			return fmt.Errorf("a reserve was %s", p.Decision.Outcome)
		}
	}
	return nil
}

// atSize measures reserves and reaper turns with n reservations outstanding,
// and returns the Redis CPU of each, in µs. A small size is made anew for each
// burst, or it would not stay small.
func (b *run) atSize(ctx context.Context, n int) (cpu [2]float64, err error) {
	var reserves, turns []window
	for range scaleRounds {
		if n == scaleFew {
			if err := b.redis.reset(ctx); err != nil {
				return cpu, err
			}
			if err := b.fill(ctx, n); err != nil {
				return cpu, err
			}
		}
		w, err := b.reserveBurst(ctx)
		if err != nil {
			return cpu, err
		}
		reserves = append(reserves, w)
		if w, err = b.reaperBurst(ctx); err != nil {
			return cpu, err
		}
		turns = append(turns, w)
	}
	name := fmt.Sprintf("with %d outstanding", n)
	reserve, turn := rowOf(groupScale, "reserve, pipelined, "+name, 0, reserves), rowOf(groupScale, "reaper, "+name, 0, turns)
	turn.Note = fmt.Sprintf("expiries; p50 and p99 are of one turn of %d", scaleTurn)
	reserve.Note = fmt.Sprintf("p50 and p99 are of one pipeline of %d", scaleBatch)
	b.add(reserve)
	b.add(turn)
	return [2]float64{reserve.StoreUS, turn.StoreUS}, nil
}

// measured runs steps of count operations each.
func (b *run) measured(ctx context.Context, steps, count int, step func() error) (window, error) {
	before, err := redisCPU(ctx, b.redis.client)
	if err != nil {
		return window{}, err
	}
	own, start, took := ownCPU(), time.Now(), make([]time.Duration, 0, steps)
	for range steps {
		begun := time.Now()
		if err := step(); err != nil {
			return window{}, err
		}
		took = append(took, time.Since(begun))
	}
	w := window{count: steps * count, took: time.Since(start), client: ownCPU() - own}
	after, err := redisCPU(ctx, b.redis.client)
	slices.Sort(took)
	w.store, w.p50, w.p99 = after-before, quantile(took, 0.5), quantile(took, 0.99)
	return w, err
}

func (b *run) reserveBurst(ctx context.Context) (window, error) {
	return b.measured(ctx, scaleBurst, scaleBatch, func() error {
		keys := make([]string, scaleBatch)
		for i := range keys {
			keys[i] = b.redis.nextKey()
		}
		return b.reserveBatch(ctx, keys, budget.TTLDefault)
	})
}

// reaperBurst makes some reservations overdue and expires them, in turns that
// do what the reaper's do.
func (b *run) reaperBurst(ctx context.Context) (window, error) {
	keys := make([]string, scaleTurn)
	for range scaleBurst {
		for i := range keys {
			keys[i] = b.redis.nextKey()
		}
		if err := b.reserveBatch(ctx, keys, time.Millisecond); err != nil {
			return window{}, err
		}
	}
	if err := pause(ctx, 5*time.Millisecond); err != nil {
		return window{}, err
	}
	w, err := b.measured(ctx, scaleBurst, scaleTurn, func() error { return b.reaperTurn(ctx) })
	return w, errors.Join(err, b.redis.dropOutbox(ctx))
}

func (b *run) reaperTurn(ctx context.Context) error {
	lists, _, err := b.redis.store.Due(ctx, scaleTurn)
	if err != nil {
		return err
	}
	partition := b.redis.store.Partition(b.redis.agent.Org)
	if len(lists[partition]) != scaleTurn {
		return fmt.Errorf("%d reservations are due, not %d", len(lists[partition]), scaleTurn)
	}
	reading, expiring := b.redis.store.Batch(), b.redis.store.Batch()
	records := make([]*redisx.PendingRecord, scaleTurn)
	for i, o := range lists[partition] {
		records[i] = reading.RecordIn(partition, o.Execution)
	}
	reading.Run(ctx)
	expired := make([]*redisx.PendingExpire, scaleTurn)
	for i, o := range lists[partition] {
		if records[i].Err != nil {
			return records[i].Err
		}
		expired[i] = expiring.Expire(partition, o, records[i].Record)
	}
	expiring.Run(ctx)
	for _, p := range expired {
		if p.Err != nil || p.Outcome != "expired" {
			return fmt.Errorf("an expiry was %q: %w", p.Outcome, p.Err)
		}
	}
	return nil
}

// resolvedBytes is the memory of a settled reservation, which is kept for a
// day.
func (b *run) resolvedBytes(ctx context.Context) error {
	if err := b.redis.reset(ctx); err != nil {
		return err
	}
	empty, err := b.usedMemory(ctx)
	if err != nil {
		return err
	}
	for n := 0; n < resolved; n += scaleBatch {
		keys := make([]string, scaleBatch)
		for i := range keys {
			keys[i] = b.redis.nextKey()
		}
		if err := b.reserveBatch(ctx, keys, budget.TTLDefault); err != nil {
			return err
		}
		if err := b.settleBatch(ctx, keys); err != nil {
			return err
		}
	}
	if err := b.redis.dropOutbox(ctx); err != nil {
		return err
	}
	full, err := b.usedMemory(ctx)
	count := (resolved + scaleBatch - 1) / scaleBatch * scaleBatch
	b.scaled = append(b.scaled, Finding{"memory of a resolved reservation", float64(full-empty) / float64(count), "bytes", ""})
	return err
}

func (b *run) settleBatch(ctx context.Context, keys []string) error {
	batch := b.redis.store.Batch()
	sent := make([]*redisx.Pending, len(keys))
	for i, key := range keys {
		r := b.redis.reserve(key, 0)
		sent[i] = batch.Settle(redisx.SettleArgs{
			Caller: r.Agent, Execution: r.Execution, Key: key, Fingerprint: r.Fingerprint,
			Actual: budget.Amounts{benchUnit: benchSpent}, Status: "success", Final: true, Guess: r.Path,
		})
	}
	batch.Run(ctx)
	for _, p := range sent {
		if p.Err != nil {
			return p.Err
		}
	}
	return nil
}
