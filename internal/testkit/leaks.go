package testkit

import "go.uber.org/goleak"

// LibraryLeaks are what a test of leaked goroutines lets pass. Each Put into an
// object store starts a goroutine that nats.go cannot end where the Put is over
// before it has run for the first time (jetstream/publish.go, cleanupReplySub).
// A server that is shut down while it sets up a mirror waits on for the answer
// (server/stream.go, setupMirrorConsumer).
func LibraryLeaks() []goleak.Option {
	return []goleak.Option{
		goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"),
		goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server.(*stream).setupMirrorConsumer.func3"),
	}
}
