package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tallystick/pkg/events"
)

// What begins every subject of an agent, and every inbox.
const (
	subjectPrefix = "tally.v1."
	inboxPrefix   = "_INBOX."
)

// Worker serves one role's verbs at both doors.
type Worker struct {
	cfg      Config
	queue    *queue[*Request]  // direct door
	intake   *queue[*command]  // on the way into COMMANDS
	commands *queue[*delivery] // out of COMMANDS
	direct   *admission
	backlog  *backlog
	throttle *throttle
	denials  *denials
	instance string // tells the events of two workers of a role apart

	started chan struct{}
	lost    chan error // the consumer is gone for good
}

// New makes a Worker; Run starts it.
func New(cfg Config) (*Worker, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	return &Worker{
		cfg:      cfg,
		queue:    newQueue[*Request](cfg.QueueMax, cfg.QueueMaxBytes),
		intake:   newQueue[*command](cfg.QueueMax, cfg.QueueMaxBytes),
		commands: newQueue[*delivery](cfg.ConsumeMax, cfg.QueueMaxBytes),
		direct:   newAdmission(cfg.AgentMax),
		backlog:  newBacklog(cfg.AgentMax),
		throttle: newThrottle(), denials: newDenials(cfg.Now()), instance: incident(),
		started: make(chan struct{}),
		lost:    make(chan error, 1),
	}, nil
}

// Started is closed once the worker hears both doors.
func (w *Worker) Started() <-chan struct{} { return w.started }

// Ready says why requests cannot be served, if so.
func (w *Worker) Ready() error {
	select {
	case <-w.started:
	default:
		return fmt.Errorf("%s: starting", w.cfg.Name)
	}
	if !w.cfg.Agents.IsConnected() {
		return fmt.Errorf("%s: no connection into AGENTS", w.cfg.Name)
	}
	if w.cfg.JetStream != nil && !w.cfg.JetStream.Conn().IsConnected() {
		return fmt.Errorf("%s: no connection into BROKER", w.cfg.Name)
	}
	return nil
}

// Metrics are the worker's own, to be registered.
func (w *Worker) Metrics() *Metrics { return w.cfg.Metrics }

// Run serves until ctx ends, then drains: it hears no more, finishes what it
// has, and returns when the last answer is flushed.
func (w *Worker) Run(ctx context.Context) error {
	// What is being finished must not be cut off by the end of ctx.
	work := context.WithoutCancel(ctx)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	consumer, err := w.consumer(ctx)
	if err != nil {
		return err
	}
	var batches, intakes, loops sync.WaitGroup
	for range w.cfg.InFlight {
		batches.Go(func() { w.runDirect(work) })
	}
	if consumer != nil {
		for range w.cfg.InFlight {
			batches.Go(func() { w.runCommands(work) })
		}
		for range w.cfg.IntakeInFlight {
			intakes.Go(func() { w.runIntake(work) })
		}
		loops.Go(func() { w.followFloor(ctx, consumer) })
		loops.Go(func() { w.tellDenials(ctx) })
		if len(w.cfg.PurgeConsumers) > 0 {
			loops.Go(func() { w.purgeCommands(ctx) })
		}
	}
	doors, err := w.open(consumer)
	if err == nil {
		close(w.started)
		select {
		case <-ctx.Done():
		case err = <-w.lost:
		}
	}
	err = errors.Join(err, doors.close(w.cfg.DrainTimeout))
	w.intake.close()
	intakes.Wait()
	w.queue.close()
	w.commands.close()
	batches.Wait()
	cancel()
	loops.Wait()
	return errors.Join(err, w.flush(work))
}

func (w *Worker) consumer(ctx context.Context) (jetstream.Consumer, error) {
	if len(w.cfg.Verbs) == 0 {
		return nil, nil
	}
	c, err := w.cfg.JetStream.Consumer(ctx, w.cfg.Stream, w.cfg.Consumer)
	if err != nil {
		return nil, fmt.Errorf("worker %s: consumer %s on %s: %w", w.cfg.Name, w.cfg.Consumer, w.cfg.Stream, err)
	}
	return c, nil
}

// flush sends what is still buffered for the agents.
func (w *Worker) flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.DrainTimeout)
	defer cancel()
	if err := w.cfg.Agents.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("worker %s: last flush: %w", w.cfg.Name, err)
	}
	return nil
}

// doors is what a worker hears through.
type doors struct {
	subs    []*nats.Subscription
	closed  []chan struct{}
	consume jetstream.ConsumeContext
}

// open subscribes to both doors. What it has opened is returned even when it
// fails, to be closed.
func (w *Worker) open(consumer jetstream.Consumer) (*doors, error) {
	d := &doors{}
	for _, verb := range append(w.cfg.Verbs[:len(w.cfg.Verbs):len(w.cfg.Verbs)], w.cfg.DirectVerbs...) {
		if err := d.hear(w, events.Rpc("*", "*", verb), w.onDirect); err != nil {
			return d, err
		}
	}
	for _, verb := range w.cfg.Verbs {
		if err := d.hear(w, events.Cmd("*", "*", verb), w.onCommand); err != nil {
			return d, err
		}
	}
	if consumer != nil {
		consume, err := consumer.Consume(w.onDelivery, jetstream.PullMaxMessages(w.cfg.ConsumeMax), jetstream.ConsumeErrHandler(w.onConsumeError))
		if err != nil {
			return d, fmt.Errorf("worker %s: consume: %w", w.cfg.Name, err)
		}
		d.consume = consume
	}
	if err := w.cfg.Agents.FlushTimeout(w.cfg.PublishTimeout); err != nil {
		return d, fmt.Errorf("worker %s: subscribe: %w", w.cfg.Name, err)
	}
	return d, nil
}

func (d *doors) hear(w *Worker, subject string, handle nats.MsgHandler) error {
	sub, err := w.cfg.Agents.QueueSubscribe(subject, w.cfg.Name, handle)
	if err != nil {
		return fmt.Errorf("worker %s: subscribe %s: %w", w.cfg.Name, subject, err)
	}
	closed := make(chan struct{})
	sub.SetClosedHandler(func(string) { close(closed) })
	d.subs, d.closed = append(d.subs, sub), append(d.closed, closed)
	return sub.SetPendingLimits(w.cfg.QueueMax, w.cfg.QueueMaxBytes)
}

// onConsumeError tells passing trouble, which nats.go repairs itself, from
// the end of the consumer.
func (w *Worker) onConsumeError(_ jetstream.ConsumeContext, err error) {
	if errors.Is(err, jetstream.ErrConsumerDeleted) || errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrBadRequest) {
		select {
		case w.lost <- fmt.Errorf("worker %s: consumer %s: %w", w.cfg.Name, w.cfg.Consumer, err):
		default:
		}
		return
	}
	w.cfg.Log.Warn().Err(err).Str("consumer", w.cfg.Consumer).Msg("consuming is disturbed")
}

// close stops hearing: nothing new arrives, what has arrived is queued.
func (d *doors) close(timeout time.Duration) error {
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	closed := d.closed
	for _, sub := range d.subs {
		// An error means the connection is gone, and with it the subscription.
		_ = sub.Drain()
	}
	if d.consume != nil {
		d.consume.Drain()
	}
	for _, c := range closed {
		select {
		case <-c:
		case <-deadline.C:
			return errors.New("worker: drain timed out")
		}
	}
	if d.consume == nil {
		return nil
	}
	select {
	case <-d.consume.Closed():
		return nil
	case <-deadline.C:
		return errors.New("worker: drain of the consumer timed out")
	}
}
