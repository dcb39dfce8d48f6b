package testkit

import (
	"testing"

	"go.uber.org/goleak"
)

// Main is the TestMain of a package that runs real servers or clients: its tests,
// and then the search for goroutines that they have left behind.
//
// Two of the libraries' own are let pass. Each Put into an object store starts a
// goroutine that nats.go cannot end where the Put is over before it has run for
// the first time (jetstream/publish.go, cleanupReplySub). A server that is shut
// down while it sets up a mirror waits on for the answer (server/stream.go,
// setupMirrorConsumer).
func Main(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"),
		goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server.(*stream).setupMirrorConsumer.func3"),
	)
}
