package events

import "slices"

// LedgerKind is what a ledger entry records.
type LedgerKind string

// Kinds of ledger entries.
const (
	KindReserved        LedgerKind = "reserved"
	KindSettled         LedgerKind = "settled"
	KindReleased        LedgerKind = "released"
	KindExpired         LedgerKind = "expired"
	KindLapsed          LedgerKind = "lapsed"
	KindLateSettled     LedgerKind = "late_settled"
	KindOverrunRefused  LedgerKind = "overrun_refused"
	KindCharged         LedgerKind = "charged"
	KindExtended        LedgerKind = "extended"
	KindDenied          LedgerKind = "denied"
	KindCorrected       LedgerKind = "corrected"
	KindRefunded        LedgerKind = "refunded"
	KindDisputed        LedgerKind = "disputed"
	KindPeriodOpened    LedgerKind = "period_opened"
	KindPeriodClosed    LedgerKind = "period_closed"
	KindPeriodArchived  LedgerKind = "period_archived"
	KindCarriedOver     LedgerKind = "carried_over"
	KindToppedUp        LedgerKind = "topped_up"
	KindReset           LedgerKind = "reset"
	KindPolicyChanged   LedgerKind = "policy_changed"
	KindAgentRegistered LedgerKind = "agent_registered"
	KindAgentRevoked    LedgerKind = "agent_revoked"
	KindAdministered    LedgerKind = "administered"
	KindGap             LedgerKind = "gap"

	// KindUnknown is what a reader gives for a kind or version it does not
	// know. The moves of such an entry count all the same.
	KindUnknown LedgerKind = "unknown"
)

// KindInfo documents one kind.
type KindInfo struct {
	Kind   LedgerKind
	When   string
	Fields []KindField // its own, beside those every entry may have
}

// KindField documents one of a kind's own fields.
type KindField struct {
	Name     string
	Optional bool
	Meaning  string
}

// LedgerKinds is the table of all kinds. Kinds without a row of fields here
// are reserved for features to come.
func LedgerKinds() []KindInfo {
	return slices.Concat(reservationKinds(), resolutionKinds(), correctionKinds(), structureKinds(), periodKinds())
}

func field(name, meaning string) KindField { return KindField{Name: name, Meaning: meaning} }
func maybe(name, meaning string) KindField {
	return KindField{Name: name, Optional: true, Meaning: meaning}
}

func reservationKinds() []KindInfo {
	return []KindInfo{
		{KindReserved, "a reservation holds its amounts", []KindField{
			field("amounts", "what is held, by unit"),
			field("created_at", "time of the reserve, Redis's clock"),
			field("expires_at", "deadline"),
			field("fingerprint", "of the request, for replays after a rebuild"),
			maybe("target", "what the slot was asked for"),
			maybe("settler", "who else may settle"),
			maybe("purpose", "as sent"),
			maybe("slots", "the concurrency slots taken: [{pool, pattern}]"),
		}},
		{KindExtended, "a later deadline, more money, or both", []KindField{
			maybe("amounts", "what is held from now on, by unit"),
			maybe("added", "what of it is new, by unit"),
			field("expires_at", "the deadline from now on"),
			field("by", "agent who asked"),
			maybe("extend_key", "its idempotency key"),
		}},
		{KindExpired, "the deadline passed without a settle", []KindField{
			maybe("withheld", "what stays set aside for a late settle, by unit"),
			maybe("charged", "after a refused overrun: what was booked instead"),
			maybe("returned", "without a late window: what went back at once"),
			maybe("lapses_at", "when withheld money returns"),
		}},
		{KindLapsed, "the late window is over", []KindField{
			field("returned", "what went back, by unit"),
		}},
		{KindDenied, "a refusal, where the org wants these on the ledger", []KindField{
			field("reason", "one of the denial reasons"),
			maybe("pool", "the limit that refused"), maybe("unit", "the same"), maybe("period", "the same"),
			maybe("requested", "what was asked of it"),
		}},
	}
}

func resolutionKinds() []KindInfo {
	settled := []KindField{
		field("authorised", "what was reserved and added, by unit"),
		maybe("actual", "as sent"),
		field("charged", "what was booked, by unit"),
		field("returned", "what went back, by unit"),
		maybe("overrun", "what was booked above authorised, by unit"),
		maybe("cost_unknown", "true where the booked figure is not the true cost"),
		maybe("status", "as sent"),
		maybe("usage", "as sent"),
		field("by", "who settled: operator, or the id of an agent or admin"), maybe("why", "as an operator or admin gave it"),
		maybe("settle_key", "its idempotency key"),
	}
	return []KindInfo{
		{KindSettled, "a reservation was settled in time", settled},
		{KindLateSettled, "an expired or lapsed reservation was settled", settled},
		{KindReleased, "a reservation was given back", []KindField{
			field("returned", "what went back, by unit"),
			maybe("reason", "as sent"),
			field("by", "who released: operator, or the id of an agent or admin"), maybe("why", "as an operator or admin gave it"),
			maybe("release_key", "its idempotency key"),
		}},
		{KindOverrunRefused, "a settle above what the limits tolerate; the reservation stays held", []KindField{
			field("authorised", "what was reserved and added, by unit"),
			maybe("actual", "as sent: known cost that is not charged"),
			maybe("booked", "what a settle would have booked, by unit"),
			field("epsilon", "what would have been tolerated, by unit"),
			maybe("status", "as sent"),
			maybe("usage", "as sent"),
			field("by", "who tried"), maybe("why", "as an operator or admin gave it"),
			maybe("settle_key", "its idempotency key"),
		}},
		{KindCharged, "a cost in one step", []KindField{
			field("charged", "what was booked, by unit"),
			maybe("incurred", "true where the money was already gone"),
			maybe("purpose", "as sent"),
		}},
	}
}

func correctionKinds() []KindInfo {
	fields := func(amounts string) []KindField {
		return []KindField{
			field("corrects", "the entry it is about, which stays: {seq, hash}"),
			field("amounts", amounts),
			field("reason", "as given"),
			field("by", "who: operator, or reconciler"), maybe("why", "as given"),
			maybe("evidence", "a file that is kept: {id, type, size}, where id is its SHA-256"),
		}
	}
	return []KindInfo{
		{KindCorrected, "an operator changed spent, linked to the entry it corrects", append(
			fields("what was added to spent, by unit; below 0 was taken from it"),
			maybe("standing", "where a rebuild undid what Redis had lost and did again: the reservation's state without it"))},
		{KindRefunded, "a provider gave money back", fields("what came back, by unit: spent is lower by it")},
		{KindDisputed, "a cost is disputed; no counter moves", fields("what is claimed back, by unit")},
	}
}

func structureKinds() []KindInfo {
	return []KindInfo{
		{KindPolicyChanged, "a pool's limits were created or changed", []KindField{
			field("rev", "the pool's revision"),
			field("limits", "[{pool, unit, period, cap, epsilon, on_overrun, late_window_ms, state, rev, opens?, closes?}], times in ms"),
			maybe("by", "who: operator, an admin's id, or registrar"), maybe("why", "as given"),
		}},
		{KindAgentRegistered, "a new agent", []KindField{
			field("name", "its name"), maybe("parent", "id of the agent that registered it"),
			field("root", "id of the first of its line"), field("depth", "0 for the first"),
			field("pool", "what it draws on"),
			maybe("ancestors", "ids, parent first"), maybe("pool_parent", "where the pool was made for it: the pool above"),
			maybe("granted", "the caps of that pool, by unit"), maybe("purpose", "as sent"),
			maybe("created_at_ms", "when, ms"), maybe("expires_at_ms", "when it ends by itself, ms"),
			maybe("by", "who: operator, or the id of an admin or agent"), maybe("why", "as given"),
			maybe("fingerprint", "of the request, for repeats after a rebuild"),
		}},
		{KindAgentRevoked, "an agent and its descendants were ended", []KindField{
			maybe("by", "who revoked: operator, or the id of an admin or agent"), maybe("why", "as given"),
			maybe("agents", "how many ended"),
		}},
		{KindAdministered, "an operator or admin did what has no entry of its own", []KindField{
			field("action", "the verb, such as admin_add"), field("by", "who: operator, or an admin's id"),
			maybe("why", "as given"), field("subject", "what was acted on: an org's name, or the id of an agent or admin"),
		}},
		{KindGap, "an operator accepted the loss of entries", []KindField{
			maybe("reason", "as given"), maybe("by", "who: operator"),
			maybe("from_seq", "first sequence lost"), maybe("to_seq", "last sequence lost"),
			maybe("after_seq", "the org's last sequence before the loss; the moves are what the counters had and no entry says"),
			maybe("lost_to_stream_seq", "the ledger's last entry that is known to have been there"), maybe("anchor_hash", "its hash"),
		}},
	}
}

func periodKinds() []KindInfo {
	return []KindInfo{
		{KindPeriodOpened, "a period's limits exist from now on", nil},
		{KindPeriodClosed, "a period ended", nil},
		{KindPeriodArchived, "a closed period's counters were removed", nil},
		{KindCarriedOver, "what remained moved to the next period", nil},
		{KindToppedUp, "a cap was raised once", nil},
		{KindReset, "counters were set to zero by an operator", nil},
	}
}

// KnownKind reports whether this version knows the kind.
func KnownKind(kind LedgerKind) bool {
	switch kind {
	case KindReserved, KindSettled, KindReleased, KindExpired, KindLapsed, KindLateSettled, KindOverrunRefused,
		KindCharged, KindExtended, KindDenied, KindCorrected, KindRefunded, KindDisputed, KindPeriodOpened,
		KindPeriodClosed, KindPeriodArchived, KindCarriedOver, KindToppedUp, KindReset, KindPolicyChanged,
		KindAgentRegistered, KindAgentRevoked, KindAdministered, KindGap:
		return true
	}
	return false
}
