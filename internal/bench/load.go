package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Kinds of load.
const (
	loadDirect  = DoorDirect
	loadDurable = DoorDurable
	loadNaive   = "naive" // GET, then DECRBY
	loadLock    = "lock"  // the same under a lock in Redis
)

// loadSpec tells the child what to do.
type loadSpec struct {
	Kind    string        `json:"kind"`
	Clients int           `json:"clients"`
	Warm    time.Duration `json:"warm_ns"`
	Window  time.Duration `json:"window_ns"`
	Windows int           `json:"windows"` // 0: until every client has stopped
	// Requests bounds the whole load; 0 for none.
	Requests int64 `json:"requests"`
	// Race: a client stops at its first denial.
	Race bool `json:"race"`

	NATSURL   string      `json:"nats_url,omitempty"`
	Org       string      `json:"org,omitempty"`
	Agents    []loadAgent `json:"agents,omitempty"` // a connection each
	Lifecycle bool        `json:"lifecycle"`        // settle what was reserved
	Run       uint32      `json:"run"`              // keeps the keys of loads apart

	Socket   string `json:"socket,omitempty"` // of Redis
	User     string `json:"user,omitempty"`
	Password string `json:"password,omitempty"`
	Key      string `json:"key,omitempty"`
}

type loadAgent struct {
	ID    string `json:"id"`
	Token string `json:"token"`
}

// Events of the child's output.
const (
	edgeBegin = "begin"
	edgeEnd   = "end"
	edgeStats = "stats"
)

// loadEvent is one line of the child's output.
type loadEvent struct {
	Edge    string        `json:"edge"`
	Took    time.Duration `json:"took_ns,omitempty"`
	CPU     time.Duration `json:"cpu_ns,omitempty"` // of the child, in the window
	Count   int           `json:"count,omitempty"`
	Allowed int           `json:"allowed,omitempty"`
	Failed  int           `json:"failed,omitempty"`
	Failure string        `json:"failure,omitempty"`
	P50     time.Duration `json:"p50_ns,omitempty"`
	P99     time.Duration `json:"p99_ns,omitempty"`
}

// meter counts what one goroutine does.
type meter struct {
	mu      sync.Mutex
	took    []time.Duration
	allowed int
	failed  int
	failure string
}

func (m *meter) decided(took time.Duration, allowed bool) {
	m.mu.Lock()
	m.took = append(m.took, took)
	if allowed {
		m.allowed++
	}
	m.mu.Unlock()
}

func (m *meter) fails(what string) (failed, decided int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failed++; m.failed == 1 {
		m.failure = what
	}
	return m.failed, len(m.took)
}

// swap hands out what was counted since the last swap.
func (m *meter) swap() (took []time.Duration, allowed, failed int, failure string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	took, allowed, failed, failure = m.took, m.allowed, m.failed, m.failure
	m.took, m.allowed, m.failed, m.failure = make([]time.Duration, 0, cap(took)), 0, 0, ""
	return took, allowed, failed, failure
}

// load is what the goroutines of the child share.
type load struct {
	spec     loadSpec
	left     atomic.Int64 // requests, where they are bounded
	stopping atomic.Bool
	meters   []*meter
	out      *json.Encoder
	closers  []func() error // once every stream has ended
}

// take asks for leave to send one more request.
func (l *load) take() bool {
	if l.stopping.Load() {
		return false
	}
	return l.spec.Requests == 0 || l.left.Add(-1) >= 0
}

// stream is one goroutine of load. stop makes it return soon.
type stream interface {
	run(m *meter) error
	stop()
}

// Load is the child's side: it reads a specification from in, makes that load
// and writes what it measured to out.
func Load(ctx context.Context, in io.Reader, out io.Writer) error {
	l := &load{out: json.NewEncoder(out)}
	if err := json.NewDecoder(in).Decode(&l.spec); err != nil {
		return fmt.Errorf("bench load: %w", err)
	}
	l.left.Store(l.spec.Requests)
	streams, err := l.streams()
	if err != nil {
		return fmt.Errorf("bench load: %w", err)
	}
	var running sync.WaitGroup
	failed := make(chan error, len(streams))
	for _, s := range streams {
		m := &meter{}
		l.meters = append(l.meters, m)
		running.Go(func() {
			if err := s.run(m); err != nil {
				failed <- err
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		running.Wait()
		close(ended)
	}()
	err = l.windows(ctx, failed, ended)
	l.stopping.Store(true)
	for _, s := range streams {
		s.stop()
	}
	<-ended
	for _, closer := range l.closers {
		err = errors.Join(err, closer())
	}
	if err != nil {
		return fmt.Errorf("bench load: %w", err)
	}
	return nil
}

func (l *load) streams() ([]stream, error) {
	switch l.spec.Kind {
	case loadDirect, loadDurable:
		return l.doorStreams()
	case loadNaive, loadLock:
		return l.handStreams()
	}
	return nil, fmt.Errorf("unknown kind %q", l.spec.Kind)
}

// windows measures one window after the other while the load goes on.
func (l *load) windows(ctx context.Context, failed <-chan error, ended <-chan struct{}) error {
	if l.spec.Windows == 0 {
		return l.window(ctx, 0, failed, ended)
	}
	warm := time.NewTimer(l.spec.Warm)
	defer warm.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-failed:
		return err
	case <-warm.C:
	}
	for range l.spec.Windows {
		if err := l.window(ctx, l.spec.Window, failed, ended); err != nil {
			return err
		}
	}
	return nil
}

// window lasts d, or until every client has stopped; 0 means only that.
func (l *load) window(ctx context.Context, d time.Duration, failed <-chan error, ended <-chan struct{}) error {
	if d > 0 { // a race is counted from its first request on
		l.collect()
	}
	if err := l.out.Encode(loadEvent{Edge: edgeBegin}); err != nil {
		return err
	}
	cpu, start := ownCPU(), time.Now()
	var over <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		over = timer.C
	}
	var bad error
	select {
	case <-ctx.Done():
		return ctx.Err()
	case bad = <-failed:
	case <-over:
	case <-ended:
	}
	e := loadEvent{Edge: edgeEnd, Took: time.Since(start), CPU: ownCPU() - cpu}
	took, sum := l.collect()
	e.Count, e.Allowed, e.Failed, e.Failure = len(took), sum.Allowed, sum.Failed, sum.Failure
	select {
	case err := <-failed:
		bad = errors.Join(bad, err)
	default:
	}
	if bad != nil {
		return bad
	}
	if err := l.out.Encode(e); err != nil {
		return err
	}
	slices.Sort(took)
	return l.out.Encode(loadEvent{Edge: edgeStats, P50: quantile(took, 0.5), P99: quantile(took, 0.99)})
}

func (l *load) collect() (all []time.Duration, sum loadEvent) {
	for _, m := range l.meters {
		took, allowed, failed, failure := m.swap()
		all = append(all, took...)
		sum.Allowed += allowed
		sum.Failed += failed
		if sum.Failure == "" {
			sum.Failure = failure
		}
	}
	return all, sum
}
