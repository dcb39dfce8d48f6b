package budget

import "errors"

// Errors a script answers with when it executes nothing.
var (
	// ErrNotFound: no such reservation, or not the caller's.
	ErrNotFound = errors.New("not found")
	// ErrKeyReused: the idempotency key was used with other content.
	ErrKeyReused = errors.New("idempotency key reused with other content")
	// ErrAlreadySettled, ErrAlreadyReleased: another key has resolved it.
	ErrAlreadySettled  = errors.New("already settled")
	ErrAlreadyReleased = errors.New("already released")
	// ErrAlreadyExpired: extend after the deadline.
	ErrAlreadyExpired = errors.New("already expired")
	// ErrUnavailable: Redis is out of reach, fenced or emptied, or the outbox
	// is full. The outcome may be unknown: repeat with the same key.
	ErrUnavailable = errors.New("unavailable")
	// ErrStalePolicy: the caller's picture of the pools is older than Redis's.
	ErrStalePolicy = errors.New("stale policy")
	// ErrAttempts: a reservation remembers at most 16 attempts.
	ErrAttempts = errors.New("too many resolution attempts")
)

// UnitError names a unit that the reservation or the path does not have, or
// that the request lacks.
type UnitError struct {
	Unit    string
	Missing bool // a limit's unit is absent from the request
}

func (e *UnitError) Error() string {
	if e.Missing {
		return "unit missing: " + e.Unit
	}
	return "unit unknown: " + e.Unit
}
