package events

// Reason is why a request was denied.
type Reason string

// Denial reasons in order of precedence: the first that holds is given.
// ReasonOverrun is the one denial of settle and release.
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
	ReasonOverrun             Reason = "overrun"
)

// Outcomes of answers.
const (
	OutcomeAllowed     = "allowed"
	OutcomeDenied      = "denied"
	OutcomeSettled     = "settled"
	OutcomeLateSettled = "late_settled"
	OutcomeReleased    = "released"
	OutcomeCharged     = "charged"
	OutcomeAccepted    = "accepted"
	OutcomeRegistered  = "registered"
	OutcomeRevoked     = "revoked"
	OutcomeCreated     = "created"
	OutcomeRemoved     = "removed"
	OutcomeSet         = "set"
	OutcomeFrozen      = "frozen"
	OutcomeUnfrozen    = "unfrozen"
	OutcomeClosed      = "closed"
	OutcomeRebuilt     = "rebuilt"
	OutcomeStored      = "stored"
	OutcomePartial     = "partial"
)

// WarningPossibleDuplicate: an equal reservation was made shortly before
// under another key.
const WarningPossibleDuplicate = "possible_duplicate"
