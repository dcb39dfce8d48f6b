package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tallystick/pkg/events"
)

// delivery is one stored command, delivered.
type delivery struct {
	Request
	msg jetstream.Msg
	seq uint64
	bad string // why it can never be executed, or ""
}

// republishRetry is the pause before a command whose decision could not be
// published comes again.
const republishRetry = time.Second

// Reasons of dead letters that are the worker's own.
const (
	deadPanic     = "panic"
	deadMalformed = "malformed"
)

// onDelivery queues one stored command. It blocks while the queue is full,
// which is what keeps the consumer from fetching more than can be handled
// before the server delivers again.
func (w *Worker) onDelivery(m jetstream.Msg) {
	d := newDelivery(m)
	if d.Deliveries > 1 {
		w.cfg.Metrics.redelivered.Inc()
	}
	w.commands.putWait(d, len(d.Body))
}

func newDelivery(m jetstream.Msg) *delivery {
	d := &delivery{msg: m}
	d.Door, d.Body = Durable, m.Data()
	meta, err := m.Metadata()
	if err != nil {
		d.bad = deadMalformed
		return d
	}
	d.seq, d.StoredAt, d.Deliveries = meta.Sequence.Stream, meta.Timestamp, int(meta.NumDelivered)
	org, agent, verb, ok := events.ParseCommandSubject(m.Subject())
	if !ok {
		d.bad = deadMalformed
		return d
	}
	h := m.Headers()
	d.Org, d.Agent, d.Verb, d.who = org, agent, verb, org+"."+agent
	d.Key, d.Trace = h.Get(events.HeaderTallyKey), h.Get(events.HeaderTrace)
	deadline, e := deadlineOf(verb, h.Get(events.HeaderTimeout), d.StoredAt)
	if e != nil || d.Key == "" {
		d.bad = deadMalformed
	}
	d.Deadline = deadline
	return d
}

// runCommands is one of the batches in flight at the durable door.
func (w *Worker) runCommands(ctx context.Context) {
	dels := make([]*delivery, 0, w.cfg.BatchMax)
	for {
		dels = w.commands.take(dels[:0], w.cfg.BatchMax, w.cfg.QueueMaxBytes)
		if len(dels) == 0 {
			return
		}
		w.execute(ctx, dels)
	}
}

// execute decides a batch and carries each decision out before its command is
// acknowledged. Whatever fails on the way is left to redelivery.
func (w *Worker) execute(ctx context.Context, dels []*delivery) {
	answers := w.decideDeliveries(ctx, dels)
	if !w.cfg.Signals.pass(AfterScript) {
		return
	}
	done := dels[:0:0]
	out := answers[:0:0]
	for i, d := range dels {
		if delay := answers[i].Retry; delay > 0 {
			w.cfg.Metrics.retried.Inc()
			w.again(d, delay)
			continue
		}
		done, out = append(done, d), append(out, answers[i])
	}
	if len(done) == 0 {
		return
	}
	w.backlog.decided(done)
	if done = w.publish(ctx, done, out); len(done) == 0 {
		return
	}
	if !w.cfg.Signals.pass(AfterDecision) || !w.cfg.Signals.pass(BeforeAck) {
		return
	}
	for _, d := range done {
		if err := d.msg.Ack(); err != nil {
			w.cfg.Log.Debug().Err(err).Uint64("seq", d.seq).Msg("command not acknowledged")
		}
	}
}

// decideDeliveries runs the handler on what can be executed.
func (w *Worker) decideDeliveries(ctx context.Context, dels []*delivery) []Answer {
	reqs := make([]*Request, 0, len(dels))
	for _, d := range dels {
		if d.bad == "" {
			reqs = append(reqs, &d.Request)
		}
	}
	var decided []Answer
	if len(reqs) > 0 {
		decided = w.decide(ctx, reqs)
	}
	answers := make([]Answer, len(dels))
	next := 0
	for i, d := range dels {
		if d.bad != "" {
			answers[i] = Answer{Dead: d.bad}
			continue
		}
		answers[i] = decided[next]
		next++
		// The intake refuses what cannot be decoded, so this was stored by
		// another version, or by somebody else.
		switch events.Code(answers[i].Code) {
		case events.CodeInvalidArgument, events.CodeBrokerArgument, events.CodePayloadTooLarge:
			if answers[i].Dead == "" {
				answers[i].Dead = answers[i].Code
			}
		}
	}
	return answers
}

// keep stores the decisions of orgs that have a pipeline, before they go out,
// and gives what may go out. What was not stored is left to redelivery; what is
// repeated is stored again, so a pipeline hears of each at least once.
func (w *Worker) keep(ctx context.Context, dels []*delivery, answers []Answer) ([]*delivery, []Answer) {
	if w.cfg.KeepDecisions == nil {
		return dels, answers
	}
	var msgs []*nats.Msg
	kept := make([]bool, len(dels))
	for i, d := range dels {
		if len(answers[i].Body) == 0 || d.Key == "" || !w.cfg.KeepDecisions(d.Org) {
			continue
		}
		kept[i] = true
		msgs = append(msgs, &nats.Msg{
			Subject: events.KeptDecision(d.Org, d.Agent, events.DecisionToken(d.Verb, d.Key)),
			Header:  nats.Header{events.HeaderTallyKey: []string{d.Key}, events.HeaderVerb: []string{d.Verb}},
			Data:    answers[i].Body,
		})
	}
	if len(msgs) == 0 {
		return dels, answers
	}
	_, err := w.storeAll(ctx, msgs)
	if err == nil {
		w.cfg.Metrics.kept.Add(float64(len(msgs)))
		return dels, answers
	}
	var failed, out []*delivery
	var theirs []Answer
	for i, d := range dels {
		if kept[i] {
			failed = append(failed, d)
			continue
		}
		out, theirs = append(out, d), append(theirs, answers[i])
	}
	w.unpublished(fmt.Errorf("keep: %w", err), failed...)
	return out, theirs
}

// publish carries out decisions and gives those that are out for certain: the
// server has confirmed everything that was sent before its answer to a ping.
func (w *Worker) publish(ctx context.Context, dels []*delivery, answers []Answer) []*delivery {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.PublishTimeout)
	defer cancel()
	dels, answers = w.keep(ctx, dels, answers)
	sent := dels[:0:0]
	for i, d := range dels {
		if err := w.publishOne(ctx, d, &answers[i]); err != nil {
			w.unpublished(err, d)
			continue
		}
		sent = append(sent, d)
	}
	if len(sent) == 0 {
		return nil
	}
	if err := w.cfg.Agents.FlushWithContext(ctx); err != nil {
		w.unpublished(fmt.Errorf("flush: %w", err), sent...)
		return nil
	}
	return sent
}

func (w *Worker) publishOne(ctx context.Context, d *delivery, a *Answer) error {
	if a.Dead != "" {
		if err := w.bury(ctx, d, a.Dead); err != nil {
			return err
		}
	}
	if len(a.Event) > 0 {
		if _, err := w.cfg.JetStream.Publish(ctx, events.Event(d.Org, a.EventType), a.Event, jetstream.WithMsgID(eventID(d.seq))); err != nil {
			return fmt.Errorf("event: %w", err)
		}
	}
	if len(a.Body) == 0 || d.Key == "" {
		return nil
	}
	h := answerHeader(a)
	h[events.HeaderTallyKey] = []string{d.Key}
	h[events.HeaderVerb] = []string{d.Verb}
	subject := events.Decision(d.Org, d.Agent, events.DecisionToken(d.Verb, d.Key))
	return w.cfg.Agents.PublishMsg(&nats.Msg{Subject: subject, Header: h, Data: a.Body})
}

// eventID keeps a redelivered command from reporting twice.
func eventID(seq uint64) string { return fmt.Sprintf("command-%d", seq) }

// bury copies a command to the dead letters, for a person to look at.
func (w *Worker) bury(ctx context.Context, d *delivery, reason string) error {
	org, verb := d.Org, d.Verb
	if org == "" {
		org, verb = "unknown", "unknown"
	}
	h := nats.Header{
		events.HeaderDeadReason:     []string{reason},
		events.HeaderDeadAgent:      []string{d.Agent},
		events.HeaderDeadDeliveries: []string{attempts(d.Deliveries)},
		events.HeaderTallyKey:       []string{d.Key},
		events.HeaderVerb:           []string{d.Verb},
	}
	msg := &nats.Msg{Subject: events.Dead(org, verb), Header: h, Data: d.Body}
	if _, err := w.cfg.JetStream.PublishMsg(ctx, msg); err != nil {
		return fmt.Errorf("dead letter: %w", err)
	}
	w.cfg.Metrics.dead.WithLabelValues(reason).Inc()
	w.cfg.Log.Warn().Str("reason", reason).Str("org", d.Org).Str("agent", d.Agent).Str("verb", d.Verb).
		Uint64("seq", d.seq).Int("deliveries", d.Deliveries).Msg("command sent to the dead letters")
	return nil
}

func (w *Worker) unpublished(err error, dels ...*delivery) {
	w.cfg.Metrics.unpublished.Add(float64(len(dels)))
	w.cfg.Log.Warn().Err(err).Int("commands", len(dels)).Msg("decisions not published; they will be repeated")
	for _, d := range dels {
		w.again(d, republishRetry)
	}
}

// again asks for redelivery. If that cannot be sent, AckWait brings it.
func (w *Worker) again(d *delivery, delay time.Duration) {
	if err := d.msg.NakWithDelay(delay); err != nil {
		w.cfg.Log.Debug().Err(err).Uint64("seq", d.seq).Msg("redelivery not asked for")
	}
}
