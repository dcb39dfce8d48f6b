package events

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// prefix starts every subject of contract version 1.
const prefix = "tally.v1."

// Doors of an agent's subject.
const (
	DoorRpc      = "rpc"
	DoorCmd      = "cmd"
	DoorDecision = "decision"
)

// Verbs that agents use. The first five have both doors.
const (
	VerbReserve = "reserve"
	VerbSettle  = "settle"
	VerbRelease = "release"
	VerbExtend  = "extend"
	VerbCharge  = "charge"

	VerbBalance     = "balance"
	VerbReservation = "reservation"
	VerbWhoami      = "whoami"
	VerbRegister    = "register"
	VerbRevoke      = "revoke"
	VerbRoute       = "route"
	VerbReport      = "report"
)

// Verbs that operators use in account ADMIN; see RoleVerbs for those of an
// org's admins.
const (
	AdminOrgCreate      = "org_create"
	AdminOrgSet         = "org_set"
	AdminOrgShow        = "org_show"
	AdminPoolCreate     = "pool_create"
	AdminPoolSet        = "pool_set"
	AdminPoolFreeze     = "pool_freeze"
	AdminPoolUnfreeze   = "pool_unfreeze"
	AdminPoolClose      = "pool_close"
	AdminPoolShow       = "pool_show"
	AdminAgentRegister  = "agent_register"
	AdminAgentList      = "agent_list"
	AdminAgentShow      = "agent_show"
	AdminAgentRevoke    = "agent_revoke"
	AdminAgentRotate    = "agent_rotate"
	AdminAdminAdd       = "admin_add"
	AdminAdminList      = "admin_list"
	AdminAdminSet       = "admin_set"
	AdminAdminRemove    = "admin_remove"
	AdminAdminRotate    = "admin_rotate"
	AdminPipelineCreate = "pipeline_create"
	AdminPipelineList   = "pipeline_list"
	AdminPipelineRemove = "pipeline_remove"

	AdminPrincipalCreate  = "principal_create"
	AdminPrincipalSet     = "principal_set"
	AdminPrincipalList    = "principal_list"
	AdminPrincipalShow    = "principal_show"
	AdminPrincipalBalance = "principal_balance"

	AdminReportMake = "report_make"
	AdminReportList = "report_list"
	AdminReportGet  = "report_get"

	AdminSettle     = "settle"
	AdminRelease    = "release"
	AdminLedger     = "ledger"
	AdminCheckpoint = "ledger_checkpoint"
	AdminAcceptLoss = "ledger_accept_loss"
	AdminReconcile  = "reconcile"
	AdminRebuild    = "rebuild"

	AdminLedgerCorrect = "ledger_correct"
	AdminEvidencePut   = "evidence_put"
	AdminEvidenceGet   = "evidence_get"
	AdminEvidenceList  = "evidence_list"
)

// Types of events.
const (
	EventReservationExpired = "reservation_expired"
	EventDrift              = "drift"
	EventSettleUnmatched    = "settle_unmatched"
	EventDenials            = "denials"
	EventLedgerHead         = "ledger_head"
	EventPartitionRebuilt   = "partition_rebuilt"
	EventReportReady        = "report_ready"
	EventLedgerRefilled     = "ledger_refilled"
	EventLedgerHalted       = "ledger_halted"
	EventLedgerConfigDrift  = "ledger_config_drift"
)

// Patterns to subscribe to, and the subjects streams store.
const (
	AllCommands = prefix + "command.>"
	AllAdmin    = prefix + "admin.*" // the operator's own; admins' are longer
	AllLedger   = prefix + "ledger.>"
	AllEvents   = prefix + "event.>"
	AllDead     = prefix + "dead.>"
	// AllDecisions are the decisions that are kept.
	AllDecisions = prefix + "decision.>"
)

// BothDoors reports whether a verb can be sent through the durable door.
func BothDoors(verb string) bool {
	switch verb {
	case VerbReserve, VerbSettle, VerbRelease, VerbExtend, VerbCharge:
		return true
	}
	return false
}

// Rpc is the direct door of an agent's verb; org and agent may be "*".
func Rpc(org, agent, verb string) string { return agentSubject(org, agent, DoorRpc, verb) }

// Cmd is the durable door of an agent's verb; org and agent may be "*".
func Cmd(org, agent, verb string) string { return agentSubject(org, agent, DoorCmd, verb) }

// Command is what the intake stores a command of the durable door under, in the
// broker's own account; org and agent may be "*". It is not the agents' subject,
// which would overlap with the ledger's.
func Command(org, agent, verb string) string {
	return prefix + "command." + org + "." + agent + "." + verb
}

// ParseCommandSubject splits the subject of a stored command.
func ParseCommandSubject(subject string) (org, agent, verb string, ok bool) {
	rest, found := strings.CutPrefix(subject, prefix+"command.")
	if !found {
		return "", "", "", false
	}
	org, rest, _ = strings.Cut(rest, ".")
	agent, verb, _ = strings.Cut(rest, ".")
	if !validWord(verb) || !ValidOrg(org) || !ValidAgent(agent) {
		return "", "", "", false
	}
	return org, agent, verb, true
}

// Decision is where the durable door's decision is published.
func Decision(org, agent, token string) string {
	return agentSubject(org, agent, DoorDecision, token)
}

// KeptDecision is what a decision is kept under for its org's pipelines, in the
// broker's own account. It is not the agents' subject, which would overlap with
// the ledger's.
func KeptDecision(org, agent, token string) string {
	return prefix + "decision." + org + "." + agent + "." + token
}

// KeptDecisionsOf matches every kept decision of an org.
func KeptDecisionsOf(org string) string { return KeptDecision(org, "*", "*") }

// ParseKeptDecision splits the subject of a kept decision.
func ParseKeptDecision(subject string) (org, agent, token string, ok bool) {
	rest, found := strings.CutPrefix(subject, prefix+"decision.")
	if !found {
		return "", "", "", false
	}
	org, rest, _ = strings.Cut(rest, ".")
	agent, token, _ = strings.Cut(rest, ".")
	if !validHex(token, 32) || !ValidOrg(org) || !ValidAgent(agent) {
		return "", "", "", false
	}
	return org, agent, token, true
}

func agentSubject(org, agent, door, last string) string {
	return prefix + org + "." + agent + "." + door + "." + last
}

// DecisionToken is the last token of a decision's subject: the first 32 hex
// digits of SHA-256(verb, one zero byte, idempotency key).
func DecisionToken(verb, key string) string {
	var room [320]byte
	b := append(room[:0], verb...)
	b = append(b, 0)
	b = append(b, key...)
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// ParseAgentSubject splits a subject of an agent. For the door "decision" the
// verb is the token. It is not ok where org or agent are not well formed.
func ParseAgentSubject(subject string) (org, agent, door, verb string, ok bool) {
	rest, found := strings.CutPrefix(subject, prefix)
	if !found {
		return "", "", "", "", false
	}
	org, rest, _ = strings.Cut(rest, ".")
	agent, rest, _ = strings.Cut(rest, ".")
	door, verb, _ = strings.Cut(rest, ".")
	switch door {
	case DoorRpc, DoorCmd:
		ok = validWord(verb)
	case DoorDecision:
		ok = validHex(verb, 32)
	}
	if !ok || !ValidOrg(org) || !ValidAgent(agent) {
		return "", "", "", "", false
	}
	return org, agent, door, verb, true
}

// Admin is the subject of an operator's verb.
func Admin(verb string) string { return prefix + "admin." + verb }

// ParseAdminSubject gives the verb of an operator's subject.
func ParseAdminSubject(subject string) (verb string, ok bool) {
	verb, ok = strings.CutPrefix(subject, prefix+"admin.")
	if !ok || !validWord(verb) {
		return "", false
	}
	return verb, true
}

// OrgAdmin is the subject of a verb of an org's admin; org and admin may be
// "*".
func OrgAdmin(org, admin, verb string) string {
	return prefix + "admin." + org + "." + admin + "." + verb
}

// ParseOrgAdminSubject splits a subject of an org's admin. It is not ok where
// org or admin are not well formed.
func ParseOrgAdminSubject(subject string) (org, admin, verb string, ok bool) {
	rest, found := strings.CutPrefix(subject, prefix+"admin.")
	if !found {
		return "", "", "", false
	}
	org, rest, _ = strings.Cut(rest, ".")
	admin, verb, _ = strings.Cut(rest, ".")
	if !ValidOrg(org) || !validUUID(admin) || !validWord(verb) {
		return "", "", "", false
	}
	return org, admin, verb, true
}

// AdminInboxPrefix is what the reply subjects of an org's admin must begin
// with, followed by a dot.
func AdminInboxPrefix(admin string) string { return "_INBOX.admin." + admin }

// Ledger is the subject of a ledger entry.
func Ledger(org string, kind LedgerKind) string { return prefix + "ledger." + org + "." + string(kind) }

// LedgerOf matches every ledger entry of an org.
func LedgerOf(org string) string { return prefix + "ledger." + org + ".*" }

// ParseLedgerSubject splits a ledger subject. The kind may be one this
// version does not know.
func ParseLedgerSubject(subject string) (org string, kind LedgerKind, ok bool) {
	org, last, ok := parsePair(subject, "ledger.")
	return org, LedgerKind(last), ok
}

// Event is the subject of an event.
func Event(org, eventType string) string { return prefix + "event." + org + "." + eventType }

// EventsOf matches every event of an org.
func EventsOf(org string) string { return prefix + "event." + org + ".*" }

// ParseEventSubject splits an event's subject. The type may be one this
// version does not know.
func ParseEventSubject(subject string) (org, eventType string, ok bool) {
	return parsePair(subject, "event.")
}

// Dead is where a command goes that cannot be executed.
func Dead(org, verb string) string { return prefix + "dead." + org + "." + verb }

// ParseDeadSubject splits the subject of a dead letter.
func ParseDeadSubject(subject string) (org, verb string, ok bool) {
	return parsePair(subject, "dead.")
}

func parsePair(subject, family string) (org, last string, ok bool) {
	rest, ok := strings.CutPrefix(subject, prefix+family)
	if !ok {
		return "", "", false
	}
	org, last, ok = strings.Cut(rest, ".")
	if !ok || !ValidOrg(org) || !validWord(last) {
		return "", "", false
	}
	return org, last, true
}

// InboxPrefix is what an agent's reply subjects must begin with, followed by
// a dot.
func InboxPrefix(agent string) string { return "_INBOX." + agent }
