package events

// CatalogueEntry explains one error code or denial reason to a person.
type CatalogueEntry struct {
	Code      string `json:"code"`
	Denial    bool   `json:"denial"` // a reason of outcome denied, not an error
	When      string `json:"when"`
	Hint      string `json:"hint"`
	Retryable bool   `json:"retryable"` // the same request under the same key may succeed
	Exit      int    `json:"exit"`      // exit code of the command line
}

// Catalogue lists every error code, then every denial reason in order of
// precedence. It is closed: nothing else is ever answered.
func Catalogue() []CatalogueEntry {
	return append(errorCatalogue(), denialCatalogue()...)
}

func errorCatalogue() []CatalogueEntry {
	e := func(code Code, exit int, retryable bool, when, hint string) CatalogueEntry {
		return CatalogueEntry{Code: string(code), When: when, Hint: hint, Retryable: retryable, Exit: exit}
	}
	return []CatalogueEntry{
		e(CodeInvalidArgument, ExitUsage, false,
			"The request is malformed: no JSON object, an unknown or repeated field, an amount that is no whole number in bounds, or no idempotency key.",
			"The error's field says where. Amounts are plain JSON integers from 1 to 9007199254740991."),
		e(CodeBrokerArgument, ExitUsage, false,
			"The request carries a field that only the broker may set, such as agentId, rootId, parentId, depth or budgetKey.",
			"Leave it out: identity comes from the connection, never from the payload."),
		e(CodeUnitMissing, ExitUsage, false,
			"A limit on the path counts a unit that amounts does not give.",
			"Name every unit that balance shows on the path."),
		e(CodeUnitUnknown, ExitUsage, false,
			"amounts, actual, add or ceilings name a unit that no limit on the path, or of the reservation, counts.",
			"Drop the unit, or ask the operator for a limit in it."),
		e(CodeLimitExceeded, ExitFailure, false,
			"A structural bound is reached: depth, pool depth, children, agents per tree, a grant above the parent's remaining (budget.caps), 16 attempts on one reservation, or the last active admin of an org (admin), who can neither be removed nor demoted.",
			"The error's field says which bound."),
		e(CodeNotFound, ExitNotFound, false,
			"There is no such reservation, pool, agent, principal or evidence, or it is not yours.",
			"Check the id and whose token is used. Keys are remembered 24 hours after resolving, then forgotten."),
		e(CodeKeyReused, ExitConflict, false,
			"The idempotency key was used before with other content.",
			"Repeat a request exactly as it was, or give a new operation a new key."),
		e(CodeAlreadySettled, ExitConflict, false,
			"Another key has settled the reservation.",
			"Book further cost with charge and incurred."),
		e(CodeAlreadyReleased, ExitConflict, false,
			"Another key has released the reservation.",
			"Book a cost that arose all the same with charge and incurred."),
		e(CodeAlreadyExpired, ExitConflict, false,
			"extend came after the reservation's deadline.",
			"Settle it (late settles are booked), or reserve again under a new key."),
		e(CodePayloadTooLarge, ExitUsage, false,
			"The message is larger than 65536 bytes, or a file of evidence than 10485760.",
			"Keep content out of budget requests; purpose and labels are for short notes."),
		e(CodeOverloaded, ExitUnavailable, true,
			"Queues are full, or the agent is throttled after more than 1000 denials in ten seconds.",
			"Repeat with the same key after retry_after_ms."),
		e(CodeUnavailable, ExitUnavailable, true,
			"Redis or NATS is out of reach, or the org's partition was emptied or is being rebuilt. Nothing is allowed because something failed.",
			"The outcome may be unknown: repeat with the same key. Operators: see rebuild."),
		e(CodeInternal, ExitFailure, true,
			"A bug. The message carries an incident id that the worker's log has too.",
			"Repeat with the same key and report the incident."),
	}
}

func denialCatalogue() []CatalogueEntry {
	d := func(reason Reason, when, hint string) CatalogueEntry {
		return CatalogueEntry{Code: string(reason), Denial: true, When: when, Hint: hint, Exit: ExitDenied}
	}
	return []CatalogueEntry{
		d(ReasonReleased, "A release of this key arrived before its reserve.",
			"The caller gave up on this key; a new operation needs a new one."),
		d(ReasonDeadlinePassed, "The durable command waited longer than Tally-Timeout-Ms.",
			"Send it again under a new key, with a longer time-out if it may wait."),
		d(ReasonRevoked, "The agent or one of its ancestors is revoked.",
			"It can still settle and release; new money needs a new agent."),
		d(ReasonFrozen, "A pool on the path is frozen.",
			"An operator ends it with pool unfreeze."),
		d(ReasonPoolMissing, "A limit that was created has no counters any more.",
			"An operator restores it from the ledger with rebuild; the same key may then succeed."),
		d(ReasonPeriodClosed, "A limit's period is closed and no later one is open.",
			"Try under a new key when the next period opens."),
		d(ReasonDebt, "What is already spent exceeds a cap on the path.",
			"Raise the cap, or wait for the next period."),
		d(ReasonConcurrencyExceeded, "Every slot for this target is taken.",
			"retry_after_ms says when the first holder's deadline ends; use a new key."),
		d(ReasonBudgetExceeded, "The amount does not fit into what remains of a limit on the path.",
			"Reserve less, or use a new key once holds were settled or the cap was raised."),
		d(ReasonOverrun, "A settle was above the reserved amount by more than the limit tolerates, or a release came after such a settle. The reservation stays held.",
			"Extend the reservation with add and settle again, or let an operator raise the limit's epsilon."),
	}
}
