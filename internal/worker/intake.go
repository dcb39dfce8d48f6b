package worker

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"tallystick/pkg/events"
)

// command is one request of the durable door on its way into COMMANDS.
type command struct {
	who, reply string
	msg        *nats.Msg // what is stored
}

// accepted answers a command that is stored durably.
var accepted = Answer{Body: []byte(`{"outcome":"accepted"}`)}

// onCommand admits one request of the durable door. What is wrong with its
// content is answered here and never stored.
func (w *Worker) onCommand(m *nats.Msg) {
	r, ok := w.receive(m, Durable)
	if !ok {
		return
	}
	c, e := newCommand(r, m)
	if e == nil {
		e = w.admit(r, w.backlog.admit)
	}
	if e != nil {
		w.sendError(r.reply, e)
		return
	}
	if !w.intake.put(c, len(r.Body)) {
		w.backlog.cancel(r.who)
		w.cfg.Metrics.refuse(Durable, refusedQueueFull)
		w.sendError(r.reply, events.Overloaded(queueRetryMS))
	}
}

// newCommand checks a request and makes what is stored of it. Of the sender's
// headers it takes nothing but the three it understands: a Nats-* header on a
// stored message is an order to the server.
func newCommand(r *Request, m *nats.Msg) (*command, *events.Error) {
	if e := events.CheckKey(r.Key); e != nil {
		return nil, e
	}
	timeout := m.Header.Get(events.HeaderTimeout)
	if _, e := events.ParseTimeout(timeout); e != nil {
		return nil, e
	}
	if e := checkBody(r.Verb, r.Body); e != nil {
		return nil, e
	}
	h := nats.Header{events.HeaderTallyKey: []string{r.Key}}
	if timeout != "" {
		h[events.HeaderTimeout] = []string{timeout}
	}
	if r.Trace != "" {
		h[events.HeaderTrace] = []string{r.Trace}
	}
	return &command{who: r.who, reply: r.reply, msg: &nats.Msg{Subject: events.Command(r.Org, r.Agent, r.Verb), Header: h, Data: r.Body}}, nil
}

// checkBody decodes a body only to refuse it early.
func checkBody(verb string, body []byte) *events.Error {
	var e *events.Error
	switch verb {
	case events.VerbReserve:
		var r events.Reserve
		if r, e = events.DecodeReserve(body); e == nil && r.DryRun != nil && *r.DryRun {
			e = events.InvalidArgument("dry_run", "a dry run is possible at the direct door only", "")
		}
	case events.VerbSettle:
		_, e = events.DecodeSettle(body)
	case events.VerbRelease:
		_, e = events.DecodeRelease(body)
	case events.VerbExtend:
		_, e = events.DecodeExtend(body)
	case events.VerbCharge:
		_, e = events.DecodeCharge(body)
	}
	return e
}

// runIntake stores what has gathered, one atomic batch at a time. Several of
// these run at once, so that one batch gathers while others are being synced.
func (w *Worker) runIntake(ctx context.Context) {
	cmds := make([]*command, 0, w.cfg.IntakeMax)
	for {
		cmds = w.intake.take(cmds[:0], w.cfg.IntakeMax, intakeMaxBytes)
		if len(cmds) == 0 {
			return
		}
		last, err := w.store(ctx, cmds)
		if err != nil {
			w.refuseCommands(cmds, err)
			continue
		}
		w.cfg.Metrics.stored.Add(float64(len(cmds)))
		w.backlog.stored(last, cmds)
		if !w.cfg.Signals.pass(AfterStore) {
			continue
		}
		for _, c := range cmds {
			w.respond(c.reply, &accepted)
		}
	}
}

// intakeMaxBytes keeps one batch well under what the server buffers for it.
const intakeMaxBytes = 8 << 20

// store writes commands to COMMANDS, all or none, and gives the sequence of
// the last.
func (w *Worker) store(ctx context.Context, cmds []*command) (last uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.PublishTimeout)
	defer cancel()
	msgs := make([]*nats.Msg, len(cmds))
	for i, c := range cmds {
		msgs[i] = c.msg
	}
	return w.storeAll(ctx, msgs)
}

// storeAll writes messages to one stream, all or none, and gives the sequence
// of the last.
func (w *Worker) storeAll(ctx context.Context, msgs []*nats.Msg) (last uint64, err error) {
	if len(msgs) == 1 {
		ack, err := w.cfg.JetStream.PublishMsg(ctx, msgs[0], jetstream.WithRetryAttempts(0))
		if err != nil {
			return 0, err
		}
		return ack.Sequence, nil
	}
	ack, err := jetstreamext.PublishMsgBatch(ctx, w.cfg.JetStream, msgs, jetstreamext.BatchFlowControl{})
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

// refuseCommands answers a batch that was not stored, or perhaps was.
func (w *Worker) refuseCommands(cmds []*command, err error) {
	e := events.Unavailable(unavailableRetryMS)
	if full(err) {
		e = events.Overloaded(fullRetryMS)
	}
	w.cfg.Log.Warn().Err(err).Int("commands", len(cmds)).Msg("commands not stored")
	for _, c := range cmds {
		w.backlog.cancel(c.who)
		w.cfg.Metrics.refuse(Durable, refusedNotStored)
		w.sendError(c.reply, e)
	}
}

const (
	unavailableRetryMS = 500
	fullRetryMS        = 1000
)

// full says whether the server refused a batch for want of room: nothing was
// stored then.
func full(err error) bool {
	var api *jetstream.APIError
	if !errors.As(err, &api) {
		return false
	}
	switch api.ErrorCode {
	case errStoreFailed, errInsufficientResources, errStorageExceeded,
		jetstreamext.JSErrCodeAtomicPublishTooManyInflight, jetstreamext.JSErrCodeBatchPublishTooManyInflight:
		return true
	}
	return api.Code == 429
}

// Codes of the server that nats.go has no name for.
const (
	errInsufficientResources jetstream.ErrorCode = 10023
	errStorageExceeded       jetstream.ErrorCode = 10047
	errStoreFailed           jetstream.ErrorCode = 10077 // "maximum messages exceeded" and its kin
)

// deadlineOf is when a stored command may no longer be executed.
func deadlineOf(verb, timeout string, stored time.Time) (time.Time, *events.Error) {
	switch verb {
	case events.VerbReserve, events.VerbExtend, events.VerbCharge:
	default:
		return time.Time{}, nil
	}
	ms, e := events.ParseTimeout(timeout)
	if e != nil {
		return time.Time{}, e
	}
	return stored.Add(time.Duration(ms) * time.Millisecond), nil
}

// attempts is a header's value.
func attempts(n int) string { return strconv.Itoa(n) }
