package client

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"tallystick/pkg/events"
)

// LostError means that a reservation is no longer held: what is spent from
// here on is not covered.
type LostError struct {
	Reservation string
	Err         error // what said so
}

func (e *LostError) Error() string {
	return "client: the reservation " + e.Reservation + " is lost: " + e.Err.Error()
}
func (e *LostError) Unwrap() error { return e.Err }

var errUnextended = errors.New("its deadline passed and it could not be extended")

// keeper moves a reservation's deadline on while a function runs.
type keeper struct {
	c           *Client
	reservation string
	ttl         time.Duration
	deadline    time.Time // no later than the broker's
}

// keeper counts from when the reserve was asked for, which is before the
// broker's clock started. It stays at the direct door: a stored extend that is
// executed late helps nobody.
func (c *Client) keeper(t tried, q events.Reserve) *keeper {
	direct := *c
	direct.durable = false
	ttl := events.TTLDefaultMS
	if q.TTLMS != nil {
		ttl = *q.TTLMS
	}
	k := &keeper{c: &direct, reservation: t.answer.Reservation, ttl: time.Duration(ttl) * time.Millisecond}
	k.deadline = t.asked.Add(k.ttl)
	return k
}

// extend asks once for the whole TTL. A *LostError is final; after any other
// error the reservation may still be held.
func (k *keeper) extend(ctx context.Context) error {
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	asked := time.Now()
	ans, err := k.c.Extend(ctx, id.String(), events.Extend{Reservation: &k.reservation, TTLMS: new(k.ttl.Milliseconds())})
	if err == nil && ans.Denial != nil {
		err = &DeniedError{*ans.Denial}
	}
	if err != nil {
		if gone(err) {
			err = &LostError{k.reservation, err}
		}
		return err
	}
	ttl := k.ttl
	if ans.ExpiresInMS != nil { // less near the bound of seven days
		ttl = min(ttl, time.Duration(*ans.ExpiresInMS)*time.Millisecond)
	}
	k.deadline = asked.Add(ttl)
	return nil
}

// gone reports whether an extend's error says that nothing is held any more.
func gone(err error) bool {
	var denied *DeniedError
	if errors.As(err, &denied) {
		return denied.Denial.Reason == events.ReasonRevoked || denied.Denial.Reason == events.ReasonReleased
	}
	var e *events.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case events.CodeNotFound, events.CodeAlreadyExpired, events.CodeAlreadyReleased, events.CodeAlreadySettled:
		return true
	}
	return false
}

// start extends until stop is called, which waits for the end and gives the
// *LostError if there was one. The function may outlive its own context while
// it winds up, so only stop ends the extending.
func (k *keeper) start(ctx context.Context, cancel context.CancelCauseFunc) (stop func() error) {
	ctx, end := context.WithCancel(context.WithoutCancel(ctx))
	result := make(chan error, 1)
	go func() {
		err := k.keep(ctx)
		if err != nil {
			cancel(err)
		}
		result <- err
	}()
	return func() error {
		end()
		return <-result
	}
}

// minBeat keeps extends apart where the deadline is near.
const minBeat = 50 * time.Millisecond

// keep extends at a third of the TTL, and sooner after a failure. It ends with
// ctx, or with the reservation.
func (k *keeper) keep(ctx context.Context) error {
	pause := k.ttl / 3
	for {
		// The deadline may be near or past already, because asking took long.
		if sleep(ctx, max(minBeat, min(pause, time.Until(k.deadline)))) != nil {
			return nil
		}
		try, done := context.WithTimeout(ctx, max(time.Until(k.deadline), k.c.cfg.Timeout))
		err := k.extend(try)
		done()
		var lost *LostError
		var denied *DeniedError
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &lost):
			return lost
		case err == nil:
			pause = k.ttl / 3
		case !errors.As(err, &denied) && !time.Now().Before(k.deadline):
			// A denial would have been already_expired if it were.
			return &LostError{k.reservation, errors.Join(errUnextended, err)}
		default:
			pause = k.ttl / 12
		}
	}
}
