package worker

import (
	"context"
	"strings"

	"github.com/nats-io/nats.go"

	"tallystick/pkg/events"
)

// onDirect admits one request of the direct door. It runs on a subscription's
// goroutine and never blocks: what cannot be queued is refused at once.
func (w *Worker) onDirect(m *nats.Msg) {
	r, ok := w.receive(m, Direct)
	if !ok {
		return
	}
	if e := w.admit(r, w.direct.admit); e != nil {
		w.sendError(r.reply, e)
		return
	}
	if !w.queue.put(r, len(r.Body)) {
		w.direct.release(r.who)
		w.cfg.Metrics.refuse(Direct, refusedQueueFull)
		w.sendError(r.reply, events.Overloaded(queueRetryMS))
	}
}

// receive turns a message into a Request, or drops it: who it is from comes
// from the subject, and where the answer may go from who it is from.
func (w *Worker) receive(m *nats.Msg, door Door) (*Request, bool) {
	org, agent, _, verb, ok := events.ParseAgentSubject(m.Subject)
	if !ok {
		w.cfg.Metrics.refuse(door, refusedMalformed)
		return nil, false
	}
	if m.Reply != "" && !ownInbox(m.Reply, agent) {
		w.cfg.Metrics.refuse(door, refusedForeignReply)
		return nil, false
	}
	r := &Request{
		Door: door, Org: org, Agent: agent, Verb: verb, Body: m.Data, reply: m.Reply,
		who: whoOf(m.Subject, org, agent),
	}
	if m.Header != nil {
		keys := m.Header[events.HeaderKey]
		if len(keys) > 0 {
			r.Key, r.badKey = keys[0], len(keys) > 1
		}
		r.Trace = traceparent(m.Header.Get(events.HeaderTrace))
	}
	return r, true
}

// whoOf cuts org.agent out of an agent's subject.
func whoOf(subject, org, agent string) string {
	return subject[len(subjectPrefix) : len(subjectPrefix)+len(org)+1+len(agent)]
}

// admit applies what costs nothing to check, then the agent's own bound.
func (w *Worker) admit(r *Request, bound func(who string) bool) *events.Error {
	if r.badKey {
		return events.InvalidArgument(events.HeaderKey, "more than one idempotency key", "send the header once")
	}
	if len(r.Body) > events.MaxPayloadBytes {
		return events.PayloadTooLarge()
	}
	if r.Verb == events.VerbReserve || r.Verb == events.VerbCharge {
		if wait := w.throttle.wait(r.who, w.cfg.Now()); wait > 0 {
			w.cfg.Metrics.refuse(r.Door, refusedThrottled)
			return events.Overloaded(wait.Milliseconds() + 1)
		}
	}
	if !bound(r.who) {
		w.cfg.Metrics.refuse(r.Door, refusedAgentBound)
		return events.Overloaded(agentRetryMS)
	}
	return nil
}

// What a refused caller is told to wait.
const (
	queueRetryMS = 250
	agentRetryMS = 100
)

// ownInbox says whether reply lies in the agent's own inbox. Anything else
// would let a caller aim the worker's rights at a subject of its choice.
func ownInbox(reply, agent string) bool {
	rest, ok := strings.CutPrefix(reply, inboxPrefix)
	if !ok || !strings.HasPrefix(rest, agent) {
		return false
	}
	rest = rest[len(agent):]
	return len(rest) > 1 && rest[0] == '.' && !strings.ContainsAny(rest, "*> \t")
}

// traceparent lets only what can be a W3C trace context pass.
func traceparent(s string) string {
	if len(s) > maxTraceBytes {
		return ""
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'z') && c != '-' {
			return ""
		}
	}
	return s
}

const maxTraceBytes = 128

// runDirect is one of the batches in flight at the direct door.
func (w *Worker) runDirect(ctx context.Context) {
	reqs := make([]*Request, 0, w.cfg.BatchMax)
	for {
		reqs = w.queue.take(reqs[:0], w.cfg.BatchMax, w.cfg.QueueMaxBytes)
		if len(reqs) == 0 {
			return
		}
		answers := w.decide(ctx, reqs)
		// An agent that has read its answer may send the next request at once,
		// so it is released before it can have read it.
		w.direct.releaseAll(reqs)
		if !w.cfg.Signals.pass(AfterScript) {
			continue
		}
		for i, r := range reqs {
			w.respond(r.reply, &answers[i])
		}
	}
}

// respond publishes an answer to an inbox that receive has checked. A failed
// publish is not an error of ours: the caller repeats with the same key.
func (w *Worker) respond(reply string, a *Answer) {
	if reply == "" || len(a.Body) == 0 {
		return
	}
	if !a.Replayed && a.Code == "" {
		_ = w.cfg.Agents.Publish(reply, a.Body)
		return
	}
	_ = w.cfg.Agents.PublishMsg(&nats.Msg{Subject: reply, Header: answerHeader(a), Data: a.Body})
}

func (w *Worker) sendError(reply string, e *events.Error) {
	a := ErrorAnswer(e)
	w.respond(reply, &a)
}

func answerHeader(a *Answer) nats.Header {
	h := nats.Header{}
	if a.Replayed {
		h[events.HeaderReplayed] = []string{"true"}
	}
	if a.Code != "" {
		h[events.HeaderError] = []string{headerText(a.Message)}
		h[events.HeaderErrorCode] = []string{a.Code}
	}
	return h
}

// headerText keeps what a caller sent, and we quote back, from breaking out
// of a header line.
func headerText(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}
