// Package reaper ends reservations whose deadline has passed, and later their
// late window. It needs no traffic: it looks at each partition's deadlines a
// few times a second.
//
// Only Redis's clock counts: it selects what is due, and the script looks
// again. The ledger entry is the report of an expiry; a durable consumer turns
// each into an event, at least once and under the entry's id.
package reaper

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
	"tallystick/pkg/events"
	"tallystick/pkg/redisx"
)

// Defaults and bounds.
const (
	everyDefault = 250 * time.Millisecond
	// turnMaxDefault bounds what one turn takes from one partition.
	turnMaxDefault = 256
	// failuresMax is how often an expiry may fail before it is set aside.
	failuresMax = 5
	followRetry = time.Second
)

// Config of a Reaper.
type Config struct {
	Store  *redisx.Store
	Ledger *ledger.Ledger
	Events *ledger.Events
	Log    zerolog.Logger

	Every   time.Duration // between turns while nothing more is due; 0: 250 ms
	TurnMax int64         // executions per partition and turn; 0: 256
}

// Validate reports everything that is missing.
func (c Config) Validate() error {
	var errs []error
	if c.Store == nil {
		errs = append(errs, errors.New("reaper: no Store"))
	}
	if c.Ledger == nil || c.Events == nil {
		errs = append(errs, errors.New("reaper: no Ledger or Events"))
	}
	return errors.Join(errs...)
}

// Reaper expires; Run starts it.
type Reaper struct {
	cfg      Config
	metrics  metrics
	state    atomic.Pointer[error]
	failures map[string]int // by execution; used by the sweeping goroutine
}

// New makes a Reaper.
func New(cfg Config) (*Reaper, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Every <= 0 {
		cfg.Every = everyDefault
	}
	if cfg.TurnMax <= 0 {
		cfg.TurnMax = turnMaxDefault
	}
	return &Reaper{cfg: cfg, metrics: newMetrics(), failures: map[string]int{}}, nil
}

// Ready is nil while the last turn went well.
func (r *Reaper) Ready() error {
	if err := r.state.Load(); err != nil {
		return *err
	}
	return nil
}

// Collectors are the reaper's metrics.
func (r *Reaper) Collectors() []prometheus.Collector { return r.metrics.all() }

// Run expires and reports until ctx ends.
func (r *Reaper) Run(ctx context.Context) error {
	var running sync.WaitGroup
	running.Go(func() { r.report(ctx) })
	r.sweep(ctx)
	running.Wait()
	return nil
}

func (r *Reaper) sweep(ctx context.Context) {
	every := time.NewTicker(r.cfg.Every)
	defer every.Stop()
	for {
		more, err := r.Turn(ctx)
		if err != nil {
			r.metrics.failures.Inc()
			r.state.Store(&err)
			r.cfg.Log.Debug().Err(err).Msg("reaper's turn failed")
		} else {
			r.state.Store(nil)
		}
		if more && err == nil && ctx.Err() == nil {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
	}
}

// due is one expiry under way.
type due struct {
	partition int
	overdue   redisx.Overdue
	record    *redisx.PendingRecord
	expire    *redisx.PendingExpire
}

// Turn expires what is due, about TurnMax of each partition, and reports
// whether a partition has more.
func (r *Reaper) Turn(ctx context.Context) (more bool, err error) {
	lists, more, err := r.cfg.Store.Due(ctx, r.cfg.TurnMax)
	if err != nil {
		return false, err
	}
	var turn []due
	read := r.cfg.Store.Batch()
	for p, list := range lists {
		for _, o := range list {
			turn = append(turn, due{partition: p, overdue: o, record: read.RecordIn(p, o.Execution)})
		}
	}
	if len(turn) == 0 {
		return more, nil
	}
	read.Run(ctx)
	expire := r.cfg.Store.Batch()
	for i := range turn {
		d := &turn[i]
		if errors.Is(d.record.Err, budget.ErrUnavailable) {
			err = d.record.Err
			continue
		}
		// The script sets a missing or unreadable record aside.
		d.expire = expire.Expire(d.partition, d.overdue, d.record.Record)
	}
	expire.Run(ctx)
	for _, d := range turn {
		if d.expire != nil {
			err = errors.Join(err, r.settle(ctx, d))
		}
	}
	return more, err
}

// settle counts what became of one expiry.
func (r *Reaper) settle(ctx context.Context, d due) error {
	if err := d.expire.Err; errors.Is(err, budget.ErrUnavailable) {
		return err
	} else if err != nil {
		r.failures[d.overdue.Execution]++
		r.cfg.Log.Error().Err(err).Str("execution", d.overdue.Execution).Msg("a reservation cannot be expired")
		if r.failures[d.overdue.Execution] < failuresMax {
			return nil
		}
		delete(r.failures, d.overdue.Execution)
		r.metrics.outcomes.WithLabelValues("set_aside").Inc()
		return r.cfg.Store.SetAside(ctx, d.partition, d.overdue, "expire_failed")
	}
	delete(r.failures, d.overdue.Execution)
	r.metrics.outcomes.WithLabelValues(d.expire.Outcome).Inc()
	if d.expire.Outcome == "corrupt" {
		r.cfg.Log.Error().Str("execution", d.overdue.Execution).Int("partition", d.partition).
			Msg("ALARM: an execution record is missing or unreadable and was set aside")
	}
	return nil
}

// report turns the ledger's expiries into events.
func (r *Reaper) report(ctx context.Context) {
	for ctx.Err() == nil {
		err := r.cfg.Ledger.Follow(ctx, events.ConsumerExpiries, budget.KindExpired, r.publish)
		if err == nil {
			return
		}
		r.cfg.Log.Warn().Err(err).Msg("reports of expiries wait")
		retry := time.NewTimer(followRetry)
		select {
		case <-ctx.Done():
		case <-retry.C:
		}
		retry.Stop()
	}
}

func (r *Reaper) publish(ctx context.Context, e budget.Entry) error {
	event, err := events.NewReservationExpired(ledger.Wire(e))
	if err == nil {
		err = r.cfg.Events.Publish(ctx, event)
	}
	if err != nil {
		r.cfg.Log.Warn().Err(err).Str("execution", e.Execution).Msg("an expiry is reported later")
		return err
	}
	r.metrics.reported.Inc()
	return nil
}
