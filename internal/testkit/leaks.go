package testkit

import "go.uber.org/goleak"

// LibraryLeaks is what a test of leaked goroutines lets pass. Each Put into an
// object store starts a goroutine that nats.go cannot end where the Put is over
// before it has run for the first time (jetstream/publish.go, cleanupReplySub).
func LibraryLeaks() goleak.Option {
	return goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect")
}
