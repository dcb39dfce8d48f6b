package events

import (
	"strconv"
	"strings"
)

// Headers of requests, answers and decisions.
const (
	// HeaderKey carries the idempotency key of a request.
	HeaderKey = "Nats-Msg-Id"
	// HeaderTimeout: how long after storing a command may still be executed.
	HeaderTimeout = "Tally-Timeout-Ms"
	// HeaderReplayed is "true" on an answer that was given before.
	HeaderReplayed = "Tally-Replayed"
	// HeaderTallyKey and HeaderVerb name the request on decisions, stored
	// commands and dead letters.
	HeaderTallyKey = "Tally-Key"
	HeaderVerb     = "Tally-Verb"
	// HeaderReason is why an operator does it, for the ledger: see CheckReason.
	HeaderReason = "Tally-Reason"
	// HeaderTrace is the W3C trace context, passed on to the entry.
	HeaderTrace = "traceparent"
	// HeaderError and HeaderErrorCode repeat an error for generic tools.
	HeaderError     = "Nats-Service-Error"
	HeaderErrorCode = "Nats-Service-Error-Code"
)

// Headers of ledger entries.
const (
	HeaderSeq       = "Tally-Seq"
	HeaderPrev      = "Tally-Prev"
	HeaderHash      = "Tally-Hash"
	HeaderPositions = "Tally-Positions"
)

// Headers of dead letters, beside HeaderTallyKey and HeaderVerb. The body is
// the command's own.
const (
	HeaderDeadReason     = "Tally-Dead-Reason"
	HeaderDeadAgent      = "Tally-Dead-Agent"
	HeaderDeadDeliveries = "Tally-Dead-Deliveries"
)

// Streams.
const (
	StreamLedger      = "LEDGER"
	StreamCommands    = "COMMANDS"
	StreamEvents      = "EVENTS"
	StreamDeadLetters = "DEADLETTERS"
	StreamDecisions   = "DECISIONS"

	// StreamMirror is the copy of LEDGER in account AUDIT.
	StreamMirror = "LEDGER_MIRROR"
)

// Durable consumers: the workers' on COMMANDS, and the one on LEDGER that
// turns expiries into events.
const (
	ConsumerReserver = "reserver"
	ConsumerSettler  = "settler"
	ConsumerExpiries = "expiries"
)

// PipelineConsumer is the durable consumer on DECISIONS that belongs to one
// pipeline identity.
func PipelineConsumer(org, pipeline string) string { return org + "_" + pipeline }

// ParsePipelineConsumer gives whose a consumer on DECISIONS is.
func ParsePipelineConsumer(name string) (org, pipeline string, ok bool) {
	org, pipeline, _ = strings.Cut(name, "_")
	return org, pipeline, ValidOrg(org) && validUUID(pipeline)
}

// Key-value buckets.
const (
	BucketOrgs       = "tally_orgs"
	BucketPools      = "tally_pools"
	BucketAgents     = "tally_agents"
	BucketPrincipals = "tally_principals"
	BucketTokens     = "tally_tokens"
	BucketAdmins     = "tally_admins"
	BucketPipelines  = "tally_pipelines"
	BucketMeta       = "tally_meta"

	// BucketCheckpoints is in account AUDIT, the others are in BROKER.
	BucketCheckpoints = "tally_checkpoints"
)

// Object stores.
const (
	StoreEvidence = "tally_evidence" // what corrections rest on
	StoreReports  = "tally_reports"
	StoreFolds    = "tally_folds" // the reconciler's own, to start from
)

// Bounds of HeaderTimeout.
const (
	TimeoutDefaultMS int64 = 30_000
	TimeoutMaxMS     int64 = 1_800_000
)

// ParseTimeout reads HeaderTimeout; an empty value is the default.
func ParseTimeout(v string) (int64, *Error) {
	if v == "" {
		return TimeoutDefaultMS, nil
	}
	n, err := strconv.ParseUint(v, 10, 32)
	if err != nil || n < 1 || int64(n) > TimeoutMaxMS || v[0] == '+' || v[0] == '0' {
		return 0, InvalidArgument(HeaderTimeout, "must be a whole number from 1 to 1800000", "it counts milliseconds from the storing of the command")
	}
	return int64(n), nil
}
