// Package scribe carries entries from the outboxes to the ledger, each once
// and in order, and drops them from the outboxes when they are there.
//
//	resume ──tail covers the anchor──▶ carry: read, append, trim ⟲
//	   │                                 │ another scribe was faster: stand by,
//	   │                                 │   then go on from the ledger's positions
//	   │                                 └ Redis or NATS away: resume
//	   └─tail behind the anchor─┬─the outboxes have it all──▶ refill, then carry
//	                            └─▶ halted, with an alarm, until an operator
//	                                accepts the loss or the entries are back
//	configuration of the ledger has drifted ──▶ nothing is written until repaired
//
// Exactly once rests on two things: the last entry of each batch carries the
// outbox positions, and a batch is accepted only on the tail that it was made
// for. Several scribes may run; they take turns.
package scribe

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"tallystick/internal/ledger"
	"tallystick/pkg/budget"
	"tallystick/pkg/redisx"
)

// Defaults of Config.
const (
	lingerDefault = 20 * time.Millisecond
	retryDefault  = 500 * time.Millisecond
	blockDefault  = 500 * time.Millisecond

	guardDefault  = time.Minute
	haltedDefault = 2 * time.Second
)

const (
	// readMax bounds what is read of one partition at once.
	readMax = 1000
	// smallBatch is what is worth waiting a moment for more: a batch costs the
	// server about a millisecond, however many entries it has.
	smallBatch = 500
	// trimEvery and beatEvery pace the trims under load, and the look at
	// every partition whether Redis still knows what the ledger knows.
	trimEvery = 100 * time.Millisecond
	beatEvery = time.Second
	// lookEvery is how often it is looked whether a Redis that is away is back.
	lookEvery = 20 * time.Millisecond
	// appendWait bounds one batch.
	appendWait = 10 * time.Second
)

// Config of a Scribe.
type Config struct {
	Store  *redisx.Store
	Ledger *ledger.Ledger
	// AnchorPath is a file beside both stores that remembers the last
	// acknowledged entry; "" keeps it in Redis alone.
	AnchorPath string
	Log        zerolog.Logger

	Losses Losses // where a halt is told and its acceptance heard; nil: nowhere
	Events Events // nil: nobody is told

	Linger      time.Duration // how long a small batch waits for more; 0: 20 ms
	Retry       time.Duration // pause after a failure; 0: 500 ms
	GuardEvery  time.Duration // how often the ledger's configuration is checked; 0: 1 min
	HaltedEvery time.Duration // how often a halted scribe looks again; 0: 2 s
}

// Validate reports everything that is missing.
func (c Config) Validate() error {
	var errs []error
	if c.Store == nil {
		errs = append(errs, errors.New("scribe: no Store"))
	}
	if c.Ledger == nil {
		errs = append(errs, errors.New("scribe: no Ledger"))
	}
	return errors.Join(errs...)
}

// Scribe carries entries; Run starts it.
type Scribe struct {
	cfg     Config
	metrics metrics
	state   atomic.Pointer[error] // why it is not carrying; nil while it is
	carried atomic.Bool           // the last session got as far as carrying
}

// errStarting is the state before the first resume.
var errStarting = errors.New("scribe: not resumed yet")

// New makes a Scribe.
func New(cfg Config) (*Scribe, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Linger <= 0 {
		cfg.Linger = lingerDefault
	}
	if cfg.Retry <= 0 {
		cfg.Retry = retryDefault
	}
	if cfg.GuardEvery <= 0 {
		cfg.GuardEvery = guardDefault
	}
	if cfg.HaltedEvery <= 0 {
		cfg.HaltedEvery = haltedDefault
	}
	s := &Scribe{cfg: cfg, metrics: newMetrics()}
	s.setState(errStarting)
	return s, nil
}

// Ready is nil while entries are carried.
func (s *Scribe) Ready() error {
	if err := s.state.Load(); err != nil {
		return *err
	}
	return nil
}

// Collectors are the scribe's metrics.
func (s *Scribe) Collectors() []prometheus.Collector { return s.metrics.all() }

func (s *Scribe) setState(err error) {
	if err == nil {
		s.state.Store(nil)
		return
	}
	s.state.Store(&err)
}

// Run carries entries until ctx ends. Failures are waited out. Where the
// ledger has lost what was acknowledged and the outboxes cannot refill it, it
// halts: nothing is written until an operator accepts the loss or the entries
// are back. Run returns the reason when ctx ends in between.
func (s *Scribe) Run(ctx context.Context) error {
	var halted *haltError
	drifted := ""
	for {
		err := s.session(ctx)
		if ctx.Err() != nil {
			if halted != nil && !s.carried.Load() {
				return fmt.Errorf("scribe halted: %w", halted)
			}
			return nil
		}
		s.setState(err)
		if s.carried.Swap(false) {
			halted, drifted = nil, ""
		}
		var halt *haltError
		again := false
		switch {
		case errors.As(err, &halt):
			halted = s.halt(ctx, halt, halted)
			again = pause(ctx, s.cfg.HaltedEvery)
		case errors.Is(err, errDrift):
			drifted = s.drift(ctx, err, drifted)
			again = pause(ctx, s.cfg.Retry)
		default:
			s.metrics.failures.Inc()
			s.cfg.Log.Warn().Err(err).Msg("scribe starts over")
			again = s.waitOut(ctx)
		}
		if !again && halt == nil {
			return nil
		}
	}
}

// waitOut pauses after a failure, but not longer than Redis is away: one that
// comes back with less than the ledger knows is found out, and fenced, by the
// first look after it.
func (s *Scribe) waitOut(ctx context.Context) bool {
	away := false
	for waited := time.Duration(0); waited < s.cfg.Retry; waited += lookEvery {
		if !pause(ctx, min(lookEvery, s.cfg.Retry)) {
			return false
		}
		_, err := s.cfg.Store.Now(ctx)
		if away && err == nil {
			return true
		}
		away = err != nil
	}
	return true
}

// carrier is one session: it ends with the first failure that a fresh look at
// the tail does not explain.
type carrier struct {
	*Scribe
	out    *ledger.Appender
	in     ahead
	marks  marks
	stored []uint64 // per partition, the stream sequence of the last trim
	anchor anchor
	dirty  map[int]bool

	trimTick, beatTick, guardTick *time.Ticker
}

func (s *Scribe) session(ctx context.Context) error {
	c := &carrier{
		Scribe: s, dirty: map[int]bool{}, anchor: anchor{path: s.cfg.AnchorPath},
		in:     ahead{store: s.cfg.Store},
		stored: make([]uint64, s.cfg.Store.Partitions()), marks: make(marks, s.cfg.Store.Partitions()),
		trimTick: time.NewTicker(trimEvery), beatTick: time.NewTicker(beatEvery),
		guardTick: time.NewTicker(s.cfg.GuardEvery),
	}
	defer c.trimTick.Stop()
	defer c.beatTick.Stop()
	defer c.guardTick.Stop()
	defer c.in.stop()
	if err := c.resume(ctx); err != nil {
		return err
	}
	if err := c.beat(ctx); err != nil {
		return err
	}
	s.carried.Store(true)
	s.metrics.halted.Set(0)
	s.metrics.drift.Set(0)
	s.setState(nil)
	err := c.carryOn(ctx)
	if ctx.Err() != nil { // leave a fresh anchor behind
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		return errors.Join(c.trim(last), c.anchor.write(c.out.Head()))
	}
	return err
}

// resume looks at the ledger's configuration, reads the tail and checks it
// against what was acknowledged.
func (c *carrier) resume(ctx context.Context) (err error) {
	if err := c.guard(ctx); err != nil {
		return err
	}
	if c.out, err = c.cfg.Ledger.Resume(ctx, c.cfg.Store.Partitions()); err != nil {
		return err
	}
	if err := c.covered(ctx); err != nil {
		return err
	}
	c.in.restart(c.positions())
	return nil
}

// acknowledged is what the file and Redis remember of the ledger's end.
func (c *carrier) acknowledged(ctx context.Context) ([]ledger.Head, []redisx.Anchor, error) {
	file, err := c.anchor.read()
	if err != nil {
		return nil, nil, err
	}
	anchors, err := c.cfg.Store.Anchors(ctx)
	if err != nil {
		return nil, nil, err
	}
	var newest ledger.Head
	for _, a := range anchors {
		if a.StreamSeq <= newest.StreamSeq {
			continue
		}
		hash, err := ledger.ParseHash(a.Hash)
		if err != nil {
			return nil, nil, fmt.Errorf("anchor in redis: %w", err)
		}
		newest = ledger.Head{StreamSeq: a.StreamSeq, Hash: hash}
	}
	return []ledger.Head{file, newest}, anchors, nil
}

func (c *carrier) positions() []string {
	out := make([]string, c.cfg.Store.Partitions())
	for p := range out {
		out[p] = c.out.Position(p)
	}
	return out
}

// carryOn reads, appends and trims until something fails.
func (c *carrier) carryOn(ctx context.Context) error {
	for ctx.Err() == nil {
		block := blockDefault
		if len(c.dirty) > 0 {
			block = 0
		}
		page, err := c.in.page(ctx, block)
		if err != nil {
			return err
		}
		if err := c.setAside(ctx, page.Corrupt); err != nil {
			return err
		}
		foreign, err := c.append(ctx, page.Entries)
		if err != nil {
			return err
		}
		if foreign {
			if err := c.standBy(ctx); err != nil {
				return err
			}
		}
		if err := c.tidy(ctx, len(page.Entries) == 0); err != nil {
			return err
		}
		if n := len(page.Entries); n > 0 && n < smallBatch {
			pause(ctx, c.cfg.Linger)
		}
	}
	return nil
}

// append writes a page in batches. Where another scribe was faster, or the
// outcome stayed open, what was read is forgotten and read again from the
// ledger's positions.
func (c *carrier) append(ctx context.Context, entries []budget.Entry) (foreign bool, err error) {
	for len(entries) > 0 {
		n := min(len(entries), ledger.MaxBatch)
		work, cancel := context.WithTimeout(context.WithoutCancel(ctx), appendWait)
		err := c.out.Append(work, entries[:n])
		cancel()
		if errors.Is(err, ledger.ErrUnsure) {
			c.metrics.conflicts.Inc()
			c.cfg.Log.Info().Err(err).Msg("looking at the ledger's tail")
			foreign, err = c.out.Resync(ctx)
			c.in.restart(c.positions())
			return foreign, err
		}
		if err != nil {
			return false, err
		}
		c.metrics.batches.Inc()
		c.metrics.entries.Add(float64(n))
		for _, e := range entries[:n] {
			c.marks.add(e.Partition, e.OutboxID)
			c.dirty[e.Partition] = true
		}
		entries = entries[n:]
	}
	return false, nil
}

// standBy leaves the ledger to another scribe for as long as that one writes.
func (c *carrier) standBy(ctx context.Context) error {
	for {
		if !pause(ctx, beatEvery) {
			return nil
		}
		foreign, err := c.out.Resync(ctx)
		if err != nil {
			return err
		}
		if !foreign {
			c.in.restart(c.positions())
			return nil
		}
	}
}

// setAside skips entries that cannot be read: the reconciler will show what
// they moved as drift.
func (c *carrier) setAside(ctx context.Context, corrupt []redisx.CorruptEntry) error {
	for _, e := range corrupt {
		c.metrics.corrupt.Inc()
		c.cfg.Log.Error().Err(e.Err).Int("partition", e.Partition).Msg("ALARM: an outbox entry is unreadable and was set aside")
		if err := c.cfg.Store.QuarantineEntry(ctx, e.Partition, e.OutboxID); err != nil {
			return err
		}
	}
	return nil
}

// pause waits, unless ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
