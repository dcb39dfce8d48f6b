package events

import "strconv"

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
)

// Durable consumers: the workers' on COMMANDS, and the one on LEDGER that
// turns expiries into events.
const (
	ConsumerReserver = "reserver"
	ConsumerSettler  = "settler"
	ConsumerExpiries = "expiries"
)

// Key-value buckets.
const (
	BucketOrgs       = "tally_orgs"
	BucketPools      = "tally_pools"
	BucketAgents     = "tally_agents"
	BucketPrincipals = "tally_principals"
	BucketTokens     = "tally_tokens"
	BucketMeta       = "tally_meta"
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
