package allinone

import (
	"net"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"tallystick/internal/topology"
	"tallystick/pkg/events"
)

func natsIn(t *testing.T, dir string, set topology.Set) *NATS {
	t.Helper()
	n, err := StartNATS(NATSConfig{Dir: dir, Addr: "127.0.0.1:0", Set: set, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Setup(within(t), 1); err != nil {
		t.Fatal(err)
	}
	return n
}

// The streams, and what is in them, outlive the server and its credentials.
func TestNATSKeepsItsData(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for round := range 3 {
		set := freshSet(t)
		n := natsIn(t, dir, set)
		u := set[topology.Scribe].NATS.Broker
		nc, err := nats.Connect(n.URL, nats.UserInfo(u.User, u.Password), nats.CustomInboxPrefix("_INBOX.scribe"))
		if err != nil {
			t.Fatal(err)
		}
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		ack, err := js.Publish(within(t), events.Ledger("acme", events.KindReserved), []byte("{}"))
		if err != nil || ack.Sequence != uint64(round+1) {
			t.Errorf("round %d: %+v, %v", round, ack, err)
		}
		closed := nc.StatusChanged(nats.CLOSED)
		nc.Close()
		<-closed
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestNATSAddressTaken(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	_, err = StartNATS(NATSConfig{Dir: t.TempDir(), Addr: ln.Addr().String(), Set: freshSet(t), Log: zerolog.Nop()})
	if err == nil || !strings.Contains(err.Error(), "--nats") {
		t.Errorf("got %v", err)
	}
}

func TestNATSConfigRefuses(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{"", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000"} {
		if (NATSConfig{Dir: "d", Addr: addr}).Validate() == nil {
			t.Errorf("%q: taken", addr)
		}
	}
}
