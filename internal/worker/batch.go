package worker

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"tallystick/pkg/events"
)

// maxPanics is how often a command may bring the handler down before it is
// taken for poison; panicRetry is the pause before each new try.
const (
	maxPanics  = 5
	panicRetry = time.Second
)

var errAnswers = errors.New("handler did not answer each request")

// crash is a panic of the handler, caught.
type crash struct {
	value any
	stack []byte
}

// decide runs the handler on a batch. A panic spoils only the request that
// causes it: the batch is run again one by one, which is harmless because
// scripts replay.
func (w *Worker) decide(ctx context.Context, reqs []*Request) []Answer {
	answers, bad := w.try(ctx, reqs)
	if bad == nil {
		return answers
	}
	if len(reqs) == 1 {
		return []Answer{w.poison(reqs[0], bad)}
	}
	answers = make([]Answer, 0, len(reqs))
	for i := range reqs {
		answers = append(answers, w.decide(ctx, reqs[i:i+1])...)
	}
	return answers
}

func (w *Worker) try(ctx context.Context, reqs []*Request) (answers []Answer, bad *crash) {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.HandleTimeout)
	defer cancel()
	defer func() {
		if v := recover(); v != nil {
			answers, bad = nil, &crash{v, debug.Stack()}
		}
	}()
	start := w.cfg.Now()
	answers = w.cfg.Handler.Handle(ctx, reqs)
	if len(answers) != len(reqs) {
		return nil, &crash{value: fmt.Errorf("%w: %d for %d", errAnswers, len(answers), len(reqs))}
	}
	now := w.cfg.Now()
	w.cfg.Metrics.batch(reqs, answers, now.Sub(start))
	for i := range answers {
		if reason := answers[i].Denied; reason != "" {
			w.throttle.denied(reqs[i].who, now)
			w.denials.add(reqs[i].Org, reqs[i].Agent, reason)
		}
	}
	return answers, nil
}

// poison answers the request that brought the handler down.
func (w *Worker) poison(r *Request, c *crash) Answer {
	id := incident()
	w.cfg.Metrics.panics.Inc()
	w.cfg.Log.Error().Str("incident", id).Str("verb", r.Verb).Str("org", r.Org).Str("agent", r.Agent).
		Int("deliveries", r.Deliveries).Any("panic", fmt.Sprint(c.value)).Bytes("stack", c.stack).Msg("handler panicked")
	a := ErrorAnswer(events.Internal(id))
	if r.Door != Durable {
		return a
	}
	if r.Deliveries < maxPanics {
		return Answer{Retry: panicRetry}
	}
	a.Dead = deadPanic
	return a
}

// incident is an id that ties an `internal` answer to the log.
func incident() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails; see crypto/rand
	return hex.EncodeToString(b[:])
}

// ErrorAnswer is the Answer that carries e.
func ErrorAnswer(e *events.Error) Answer {
	return Answer{Body: e.Append(nil), Code: string(e.Code), Message: e.Message}
}
