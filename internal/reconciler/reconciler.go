// Package reconciler compares the counters in Redis with the ledger, exactly,
// and rebuilds Redis from it.
//
// The law: counters = fold(ledger) + fold(outbox). A [Reconciler] keeps the
// fold of the ledger up to date, entry by entry. To compare it takes a cut of
// a partition (figures and the outbox's last id, in one script) and folds the
// ledger up to that id together with what is still in the outbox, each entry
// once. So it is exact while the scribe lags, is paused or is down; what may
// show beside drift, and why, is in tolerance.json.
package reconciler

import (
	"context"
	"errors"
	"sync"
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
	outstandingEveryDefault = time.Second
	compareEveryDefault     = 30 * time.Second
	mirrorEveryDefault      = 10 * time.Second
	drainTimeoutDefault     = time.Minute
	guardEveryDefault       = time.Minute

	checkpointEveryDefault   = time.Minute
	checkpointEntriesDefault = 10_000
	keepEveryDefault         = 5 * time.Minute
	keepEntriesDefault       = 100_000
)

// readMax bounds one read of the ledger or of an outbox.
const readMax = 1000

// Epochs knows what the installation's KV says of a partition's epoch.
type Epochs interface {
	// Epoch is the partition's epoch, "" where none was ever made.
	Epoch(ctx context.Context, partition int) (string, error)
	// CreateEpoch makes one, or gives the one that is there.
	CreateEpoch(ctx context.Context, partition int) (string, error)
	// TakeLease takes or keeps a lease; false where another holder has it.
	TakeLease(ctx context.Context, name, holder string, now, until time.Time) (bool, error)
	// EndLease gives it back.
	EndLease(ctx context.Context, name, holder string) error
}

// Config of a Reconciler.
type Config struct {
	Store  *redisx.Store
	Ledger *ledger.Ledger
	Events *ledger.Events
	Epochs Epochs
	Mirror *ledger.Ledger // the copy in account AUDIT; nil: none is checked
	Folds  Folds          // nil: every start folds the whole ledger
	Losses Losses         // of a halted scribe; nil: none can be accepted
	// CheckConfig tells how streams and buckets differ from what was set up;
	// nil: nobody looks.
	CheckConfig func(ctx context.Context) (drift, err error)
	Log         zerolog.Logger

	Evidence EvidenceConfig // without Files, none is kept

	OutstandingEvery time.Duration // how often outstanding counts are written; 0: 1 s
	CompareEvery     time.Duration // how often it compares by itself; 0: 30 s
	MirrorEvery      time.Duration // how often it looks at the mirror; 0: 10 s
	GuardEvery       time.Duration // how often it checks the configuration; 0: 1 min
	DrainTimeout     time.Duration // how long a rebuild waits for the scribe; 0: 1 min

	// Signer and Checkpoints make checkpoints; without a Signer there are none.
	Signer            Signer
	Checkpoints       Checkpoints
	CheckpointDir     string        // where the newest ones are files too; "": nowhere
	CheckpointEvery   time.Duration // where there is something new; 0: 1 min
	CheckpointEntries uint64        // earlier where there are as many new entries; 0: 10,000
	KeepEvery         time.Duration // how often the fold is kept, if it has changed; 0: 5 min
	KeepEntries       int64         // after how many entries it is kept before that; 0: 100,000
}

// Validate reports everything that is missing.
func (c Config) Validate() error {
	var errs []error
	need := func(ok bool, what string) {
		if !ok {
			errs = append(errs, errors.New("reconciler: no "+what))
		}
	}
	need(c.Store != nil, "Store")
	need(c.Ledger != nil, "Ledger")
	need(c.Events != nil, "Events")
	need(c.Epochs != nil, "Epochs")
	need(c.Signer == nil || c.Checkpoints != nil, "Checkpoints to sign for")
	if c.Evidence.Files != nil {
		need(c.Evidence.Uploads != nil, "Evidence.Uploads")
		need(c.Evidence.Orgs != nil, "Evidence.Orgs")
	}
	return errors.Join(errs...)
}

// Reconciler compares and rebuilds; Run keeps it up to date.
type Reconciler struct {
	cfg       Config
	tolerance Tolerance
	metrics   metrics
	state     atomic.Pointer[error]

	mu       sync.Mutex // one comparison, rebuild or reading at a time
	fold     *fold
	recalled bool  // a kept fold was looked for
	kept     int64 // entries of the fold that was kept last
	reader   *ledger.Reader
	names    ledger.Names
	heads    heads
	notary   notary

	evidence evidenceKeeper

	mirror mirrored // of the goroutine that runs
	alarms alarms   // the same
}

var errStarting = errors.New("reconciler: the ledger is not folded yet")

// New makes a Reconciler.
func New(cfg Config) (*Reconciler, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	tolerance, err := PublishedTolerance()
	if err != nil {
		return nil, err
	}
	if cfg.OutstandingEvery <= 0 {
		cfg.OutstandingEvery = outstandingEveryDefault
	}
	if cfg.CompareEvery <= 0 {
		cfg.CompareEvery = compareEveryDefault
	}
	if cfg.MirrorEvery <= 0 {
		cfg.MirrorEvery = mirrorEveryDefault
	}
	if cfg.GuardEvery <= 0 {
		cfg.GuardEvery = guardEveryDefault
	}
	if cfg.DrainTimeout <= 0 {
		cfg.DrainTimeout = drainTimeoutDefault
	}
	if cfg.CheckpointEvery <= 0 {
		cfg.CheckpointEvery = checkpointEveryDefault
	}
	if cfg.CheckpointEntries == 0 {
		cfg.CheckpointEntries = checkpointEntriesDefault
	}
	if cfg.KeepEvery <= 0 {
		cfg.KeepEvery = keepEveryDefault
	}
	if cfg.KeepEntries <= 0 {
		cfg.KeepEntries = keepEntriesDefault
	}
	r := &Reconciler{
		cfg: cfg, tolerance: tolerance, metrics: newMetrics(), fold: newFold(cfg.Store.Partitions()), names: ledger.Names{},
		alarms: newAlarms(tolerance),
	}
	r.evidence.EvidenceConfig = cfg.Evidence
	r.reader = cfg.Ledger.Reader("", 0)
	r.heads.last, r.notary.proofs = map[string]ledger.Message{}, map[string]*proof{}
	r.state.Store(&errStarting)
	return r, nil
}

// Ready is nil once the ledger is folded and while it can be read.
func (r *Reconciler) Ready() error {
	if err := r.state.Load(); err != nil {
		return *err
	}
	return nil
}

// Collectors are the reconciler's metrics.
func (r *Reconciler) Collectors() []prometheus.Collector { return r.metrics.all() }

// Run folds, writes outstanding counts and compares until ctx ends.
func (r *Reconciler) Run(ctx context.Context) error {
	defer r.finish(context.WithoutCancel(ctx))
	var vouching sync.WaitGroup
	vouching.Go(func() { r.vouch(ctx) })
	defer vouching.Wait()
	said := map[string]told{}
	heads := time.NewTicker(headEvery)
	defer heads.Stop()
	follow := time.NewTicker(r.cfg.OutstandingEvery)
	defer follow.Stop()
	compare := time.NewTicker(r.cfg.CompareEvery)
	defer compare.Stop()
	look := time.NewTicker(min(lookEvery, r.cfg.CompareEvery))
	defer look.Stop()
	mirror := time.NewTicker(r.cfg.MirrorEvery)
	defer mirror.Stop()
	keep := time.NewTicker(r.cfg.KeepEvery)
	defer keep.Stop()
	guard := time.NewTicker(r.cfg.GuardEvery)
	defer guard.Stop()
	r.guard(ctx)
	r.turn(ctx, r.start)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-follow.C:
			r.turn(ctx, r.follow)
			r.keep(ctx, r.cfg.KeepEntries)
		case <-keep.C:
			r.keep(ctx, r.cfg.KeepEntries/keepWorth)
		case <-heads.C:
			r.turn(ctx, func(ctx context.Context) error { return r.tellHeads(ctx, said) })
		case <-look.C:
			r.turn(ctx, r.heal)
		case <-compare.C:
			r.turn(ctx, r.patrol)
			compare.Reset(r.nextLook())
		case <-guard.C:
			r.guard(ctx)
		case <-mirror.C:
			r.turn(ctx, r.checkMirror)
		}
	}
}

// nextLook is when to compare again: soon where something differs that has not
// lasted long enough for an alarm.
func (r *Reconciler) nextLook() time.Duration {
	if r.alarms.suspects() {
		return min(r.cfg.CompareEvery, r.tolerance.Sustained.every())
	}
	return r.cfg.CompareEvery
}

// finish keeps the fold for the next start, and lets go of the reader.
func (r *Reconciler) finish(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, finishTimeout)
	defer cancel()
	r.keep(ctx, r.cfg.KeepEntries/keepWorth)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reader.Close(ctx)
}

// turn runs one step and remembers whether it went well.
func (r *Reconciler) turn(ctx context.Context, step func(context.Context) error) {
	err := step(ctx)
	if ctx.Err() != nil {
		return
	}
	if err == nil {
		r.state.Store(nil)
		return
	}
	r.metrics.failures.Inc()
	r.cfg.Log.Warn().Err(err).Msg("reconciler waits")
	r.state.Store(&err)
}

// start folds all there is, and looks for a Redis that was emptied.
func (r *Reconciler) start(ctx context.Context) error {
	if err := r.follow(ctx); err != nil {
		return err
	}
	return r.heal(ctx)
}

func (r *Reconciler) follow(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.catchUp(ctx); err != nil {
		return err
	}
	return r.writeOutstanding(ctx)
}

// patrol compares everything and publishes what goes on differing.
func (r *Reconciler) patrol(ctx context.Context) error {
	report, err := r.Reconcile(ctx, "")
	if err != nil {
		return err
	}
	return r.publish(ctx, report)
}

// catchUp folds what is new on the ledger.
func (r *Reconciler) catchUp(ctx context.Context) error {
	return r.advance(ctx, func(e *budget.Entry) { r.fold.apply(e) })
}

// advance gives every entry between the fold's end and the ledger's to visit,
// which folds it now or later.
func (r *Reconciler) advance(ctx context.Context, visit func(*budget.Entry)) error {
	tail, _, err := r.cfg.Ledger.Tail(ctx)
	if err != nil {
		return err
	}
	if err := r.recall(ctx); err != nil {
		return err
	}
	follows, err := r.follows(ctx, tail)
	if err != nil {
		return err
	}
	if !follows {
		r.refold(ctx)
	}
	limit, wait := readMax, time.Duration(0)
	for r.fold.after < tail.StreamSeq {
		page, err := r.reader.Next(ctx, limit, wait)
		if err != nil {
			return err
		}
		limit, wait = readMax, 0
		if len(page) == 0 { // the reader's server lags behind the leader
			limit, wait = 1, r.cfg.OutstandingEvery
		}
		for _, m := range page {
			r.fold.after, r.fold.hash = m.StreamSeq, m.Hash
			e, err := r.read(m.Body)
			if err != nil {
				r.metrics.unreadable.Inc()
				r.cfg.Log.Error().Err(err).Uint64("stream_seq", m.StreamSeq).Msg("ALARM: a ledger entry is unreadable")
				continue
			}
			r.heads.add(e.Org, m)
			visit(&e)
		}
	}
	r.metrics.folded.Set(float64(r.fold.after))
	return nil
}

// read decodes as much of an entry as the fold looks at.
func (r *Reconciler) read(body []byte) (budget.Entry, error) {
	e, err := r.names.Moves(body)
	if err != nil {
		return e, err
	}
	switch e.Kind {
	case budget.KindPolicyChanged, budget.KindOverrunRefused, budget.KindExpired, budget.KindCorrected:
		return ledger.Decode(body)
	}
	return e, nil
}

// writeOutstanding tells Redis how many reservations each limit has, where
// that has changed.
func (r *Reconciler) writeOutstanding(ctx context.Context) error {
	counts := map[int]map[budget.Counter]int64{}
	for _, l := range r.fold.dirty {
		p := r.cfg.Store.Partition(l.id.Org)
		if counts[p] == nil {
			counts[p] = map[budget.Counter]int64{}
		}
		counts[p][l.id] = l.outstanding
	}
	for p, m := range counts {
		if err := r.cfg.Store.SetOutstanding(ctx, p, m); err != nil {
			return err
		}
	}
	for _, l := range r.fold.dirty {
		l.dirty = false
	}
	r.fold.dirty = r.fold.dirty[:0]
	return nil
}
