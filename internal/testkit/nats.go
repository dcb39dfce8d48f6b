package testkit

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Accounts of a NATS server; the user of each is named like it.
const (
	Agents = "AGENTS"
	Broker = "BROKER"
	Admin  = "ADMIN"
)

const (
	password  = "test"
	startWait = 10 * time.Second
)

const natsConfig = `
accounts {
  AGENTS: { users: [{user: AGENTS, password: test}] }
  BROKER: { jetstream: enabled, users: [{user: BROKER, password: test}] }
  ADMIN:  { users: [{user: ADMIN, password: test}] }
  SYS:    { users: [{user: SYS, password: test}] }
}
system_account: SYS
`

// NATSServer is one embedded server. Users have every right inside their
// account: permissions are topology's matter, and tested there.
type NATSServer struct {
	Server *server.Server
	URL    string

	opts *server.Options
	port int
}

// NATS starts a server that ends with the test. Its JetStream syncs always,
// as the real one does.
func NATS(t testing.TB) *NATSServer {
	t.Helper()
	config := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(config, []byte(natsConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	opts, err := server.ProcessConfigFile(config)
	if err != nil {
		t.Fatal(err)
	}
	opts.Host, opts.Port, opts.NoLog, opts.NoSigs = "127.0.0.1", -1, true, true
	opts.JetStream, opts.StoreDir, opts.SyncAlways = true, t.TempDir(), true
	n := &NATSServer{opts: opts}
	n.start(t)
	t.Cleanup(n.Stop)
	return n
}

func (n *NATSServer) start(t testing.TB) {
	t.Helper()
	s, err := server.NewServer(n.opts)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(startWait) {
		t.Fatal("nats-server is not ready")
	}
	addr, ok := s.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatalf("nats-server listens on %v", s.Addr())
	}
	n.Server, n.URL, n.port = s, s.ClientURL(), addr.Port
}

// Stop ends the server and waits for it.
func (n *NATSServer) Stop() {
	n.Server.Shutdown()
	n.Server.WaitForShutdown()
}

// Restart brings a stopped server back on the same port and directory.
func (n *NATSServer) Restart(t testing.TB) {
	t.Helper()
	n.opts.Port = n.port
	n.start(t)
}

// Connect opens a connection into an account; it closes with the test.
func (n *NATSServer) Connect(t testing.TB, account string, opts ...nats.Option) *nats.Conn {
	t.Helper()
	opts = append([]nats.Option{nats.UserInfo(account, password), nats.MaxReconnects(-1), nats.ReconnectWait(20 * time.Millisecond)}, opts...)
	nc, err := nats.Connect(n.URL, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if nc.IsClosed() {
			return
		}
		closed := nc.StatusChanged(nats.CLOSED)
		nc.Close()
		<-closed
	})
	return nc
}

// JetStream opens a connection into BROKER and its JetStream.
func (n *NATSServer) JetStream(t testing.TB) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(n.Connect(t, Broker))
	if err != nil {
		t.Fatal(err)
	}
	return js
}
