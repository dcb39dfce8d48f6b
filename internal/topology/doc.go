// Package topology says what the system is made of on NATS and who may do
// what: accounts, users and their permissions, streams, consumers and buckets,
// and the matching users of Redis. Everything is a value, so that the embedded
// server, a deployment by hand and the tests get the same.
//
// Agents live in account AGENTS, which has no JetStream: there is nothing a
// hostile reply subject could hit. Workers reach streams through a second
// connection in BROKER, where agents are not.
package topology
