// Package allinone runs the whole system in one process: an embedded NATS
// server, a private redis-server child, and every worker, each with its own
// credentials and connections, as when they run apart.
//
//	Start: lock DIR → Redis → NATS → streams → workers → all answer → DIR/up.json
//	Stop:  doors → reaper, reconciler → registrar → outboxes empty → scribe → NATS → Redis
//
// What a killed process leaves behind is in DIR and nothing else: the next
// Start ends a Redis that outlived its parent and goes on from the AOF, the
// streams and the scribe's anchor. Credentials are made afresh by each Start
// and live in memory; only DIR/up.json names the operator's token.
package allinone
