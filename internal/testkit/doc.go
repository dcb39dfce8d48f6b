// Package testkit starts real servers for tests: an embedded nats-server with
// the installation's accounts, and redis-server on a unix socket. A server
// that cannot be started fails the test; nothing is skipped or emulated.
package testkit
