package registry_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tallystick/internal/registry"
	"tallystick/internal/testkit"
	"tallystick/internal/topology"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const (
	org     = "acme"
	waitMax = 10 * time.Second
)

// world is a server with the buckets of an installation.
type world struct {
	nats *testkit.NATSServer
	js   jetstream.JetStream
	dir  *registry.Directory
}

func newWorld(t testing.TB) *world {
	t.Helper()
	n := testkit.NATS(t)
	w := &world{nats: n, js: n.JetStream(t)}
	for _, bucket := range topology.Buckets() {
		_, err := w.js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: bucket})
		must(t, err)
	}
	var err error
	w.dir, err = registry.OpenDirectory(t.Context(), w.js)
	must(t, err)
	return w
}

func (w *world) cache(t testing.TB) *registry.Cache {
	t.Helper()
	c, err := registry.Open(t.Context(), w.js)
	must(t, err)
	t.Cleanup(c.Close)
	return c
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits for a condition that another goroutine brings about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitMax)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("never: %s", what)
		case <-tick.C:
		}
	}
}

func pool(name, parent string, rev, limit int64) registry.Pool {
	return registry.Pool{Org: org, Name: name, Parent: parent, Rev: rev, Limits: []registry.Limit{
		{Unit: "tokens", Period: "none", Cap: &limit, OnOverrun: "reject", LateWindowMS: 1000},
	}}
}
