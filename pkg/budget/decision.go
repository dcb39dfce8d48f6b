package budget

import "time"

// Outcome says what a script did. Decisions are values; failures are errors.
type Outcome string

// Outcomes of the scripts.
const (
	Allowed     Outcome = "allowed"
	Refused     Outcome = "denied"
	Settled     Outcome = "settled"
	LateSettled Outcome = "late_settled"
	Released    Outcome = "released"
	Charged     Outcome = "charged"
)

// Reason is why a request was denied.
type Reason string

// Denial reasons in order of precedence: the first that holds is given.
const (
	ReasonReleased            Reason = "released"
	ReasonDeadlinePassed      Reason = "deadline_passed"
	ReasonRevoked             Reason = "revoked"
	ReasonFrozen              Reason = "frozen"
	ReasonPoolMissing         Reason = "pool_missing"
	ReasonPeriodClosed        Reason = "period_closed"
	ReasonDebt                Reason = "debt"
	ReasonConcurrencyExceeded Reason = "concurrency_exceeded"
	ReasonBudgetExceeded      Reason = "budget_exceeded"

	// ReasonOverrun is the one denial of settle and release.
	ReasonOverrun Reason = "overrun"
)

// Denial explains a refusal. The limit, and with it Requested and Counters,
// is set where a limit refused; Holders where a slot did.
type Denial struct {
	Reason     Reason
	Limit      LimitID
	HasFigures bool // Requested and Counters are meaningful
	Requested  int64
	Counters   Counters
	Holders    int64
	RetryAfter time.Duration
}

// Decision is the answer of reserve, settle, release, extend or charge.
type Decision struct {
	Outcome     Outcome
	Replayed    bool
	Reservation string // execution id; empty for charge
	Amounts     Amounts
	ExpiresAt   time.Time
	ExpiresIn   time.Duration
	Pools       []PoolRow
	Denial      *Denial

	// Of settle and release.
	Charged, Returned, Overrun Amounts
	CostUnknown, PoolMissing   bool

	// Of a refused overrun.
	Authorised, Actual, Epsilon Amounts
}
