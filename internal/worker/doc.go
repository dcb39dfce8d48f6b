// Package worker is the plumbing between NATS and a role's Handler: it carries
// requests through both doors, in batches, and answers them.
//
//	direct door:  rpc subject → admission → queue → Handler → reply
//	durable door: cmd subject → admission → intake → COMMANDS → "accepted"
//	              COMMANDS → queue → Handler → decision → flush → ack
//
// A batch is whatever is waiting, up to Config.BatchMax: nothing ever waits
// for a batch to fill, and Config.InFlight batches run at once. One batch is
// one call of the Handler, and one pipeline into Redis.
//
// The subject is the only identity the worker believes. A reply goes only to
// the sender's own inbox: a request that names another reply subject executes
// nothing and is counted; one that names none is executed, unanswered.
//
// A command is acknowledged only after its decision is out, so a worker that
// dies anywhere in between is covered by redelivery and by the script's replay.
package worker
