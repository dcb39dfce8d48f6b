package worker

import (
	"errors"
	"time"

	"github.com/rs/zerolog"

	"tallystick/pkg/budget"
	"tallystick/pkg/events"
)

// outageRetry is how long a command waits before it asks again for what is
// out of reach.
const outageRetry = time.Second

// Failed answers a request that a script or the registry refused with err. At
// the durable door an outage is waited out instead of being answered. What is
// nobody's to know is `internal`, with an incident id that leads to err in the
// log.
func Failed(r *Request, err error, log zerolog.Logger) Answer {
	e := ErrorOf(err)
	if e == nil {
		id := incident()
		log.Error().Err(err).Str("incident", id).Str("verb", r.Verb).Str("org", r.Org).Str("agent", r.Agent).Msg("request failed")
		e = events.Internal(id)
	}
	if e.Code == events.CodeUnavailable && r.Door == Durable {
		return Answer{Retry: outageRetry}
	}
	return ErrorAnswer(e)
}

// ErrorOf translates an error of the domain; nil where it has no translation.
func ErrorOf(err error) *events.Error {
	var e *events.Error
	var unit *budget.UnitError
	switch {
	case errors.As(err, &e):
		return e
	case errors.As(err, &unit) && unit.Missing:
		return events.UnitMissing(unit.Unit)
	case errors.As(err, &unit):
		return events.UnitUnknown(unit.Unit)
	case errors.Is(err, budget.ErrNotFound):
		return events.NotFound("reservation")
	case errors.Is(err, budget.ErrKeyReused):
		return events.KeyReused("")
	case errors.Is(err, budget.ErrAlreadySettled):
		return events.AlreadySettled()
	case errors.Is(err, budget.ErrAlreadyReleased):
		return events.AlreadyReleased()
	case errors.Is(err, budget.ErrAlreadyExpired):
		return events.AlreadyExpired()
	case errors.Is(err, budget.ErrAttempts):
		return events.LimitExceeded("attempts")
	case errors.Is(err, budget.ErrUnavailable), errors.Is(err, budget.ErrStalePolicy):
		return events.Unavailable(unavailableRetryMS)
	}
	return nil
}
