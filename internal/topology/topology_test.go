package topology

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tallystick/internal/testkit"
	"tallystick/pkg/events"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// installation is a server that was configured by NATSConf.
type installation struct {
	url string
	set Set
}

func install(t *testing.T, hash bool) installation {
	t.Helper()
	set, err := Generate(TokenHash(NewToken()))
	if err != nil {
		t.Fatal(err)
	}
	text, err := NATSConf(NATSServer{Listen: "127.0.0.1:-1", StoreDir: t.TempDir(), HashPasswords: hash}, set)
	if err != nil {
		t.Fatal(err)
	}
	opts := &server.Options{}
	if err := opts.ProcessConfigString(text); err != nil {
		t.Fatal(err)
	}
	opts.NoSigs, opts.NoLog = true, true
	s, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("nats-server is not ready")
	}
	if _, ok := s.Addr().(*net.TCPAddr); !ok {
		t.Fatal("no address")
	}
	return installation{s.ClientURL(), set}
}

// connect opens a worker's connection in one of its accounts.
func (in installation) connect(t *testing.T, worker, account string) *nats.Conn {
	t.Helper()
	u := in.set[worker].user(account)
	nc, err := nats.Connect(in.url, nats.UserInfo(u.User, u.Password), nats.CustomInboxPrefix("_INBOX."+worker),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		t.Fatalf("%s in %s: %v", worker, account, err)
	}
	t.Cleanup(func() {
		closed := nc.StatusChanged(nats.CLOSED)
		nc.Close()
		<-closed
	})
	return nc
}

func (in installation) jetStream(t *testing.T, worker string) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(in.connect(t, worker, accountBroker))
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func brief(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestEnsureIsIdempotent(t *testing.T) {
	t.Parallel()
	in := install(t, true)
	js := in.jetStream(t, Setup)
	for range 2 {
		if err := Ensure(brief(t), js, 1); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{events.StreamLedger, events.StreamCommands, events.StreamEvents, events.StreamDeadLetters} {
		if _, err := js.Stream(brief(t), name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, b := range Buckets() {
		if _, err := js.KeyValue(brief(t), b); err != nil {
			t.Errorf("%s: %v", b, err)
		}
	}
}

// A ledger under which history could be lost is refused, and left alone.
func TestCheckLedgerRefusesDrift(t *testing.T) {
	t.Parallel()
	ledger := func() jetstream.StreamConfig { return Streams(1)[0] }
	if err := CheckLedger(ledger()); err != nil {
		t.Fatalf("its own configuration: %v", err)
	}
	rows := map[string]func(*jetstream.StreamConfig){
		"delete":        func(c *jetstream.StreamConfig) { c.DenyDelete = false },
		"purge":         func(c *jetstream.StreamConfig) { c.DenyPurge = false },
		"rollup":        func(c *jetstream.StreamConfig) { c.AllowRollup = true },
		"ttl":           func(c *jetstream.StreamConfig) { c.AllowMsgTTL = true },
		"schedules":     func(c *jetstream.StreamConfig) { c.AllowMsgSchedules = true },
		"retention":     func(c *jetstream.StreamConfig) { c.Retention = jetstream.InterestPolicy },
		"age":           func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour },
		"messages":      func(c *jetstream.StreamConfig) { c.MaxMsgs = 8 },
		"bytes":         func(c *jetstream.StreamConfig) { c.MaxBytes = 8 },
		"per subject":   func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 1 },
		"discard":       func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld },
		"memory":        func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage },
		"async persist": func(c *jetstream.StreamConfig) { c.PersistMode = jetstream.AsyncPersistMode },
		"no batches":    func(c *jetstream.StreamConfig) { c.AllowAtomicPublish = false },
		"direct":        func(c *jetstream.StreamConfig) { c.AllowDirect = true },
		"subjects":      func(c *jetstream.StreamConfig) { c.Subjects = []string{"elsewhere.>"} },
		"republish":     func(c *jetstream.StreamConfig) { c.RePublish = &jetstream.RePublish{Destination: "x"} },
		"mirror":        func(c *jetstream.StreamConfig) { c.Mirror = &jetstream.StreamSource{Name: "X"} },
		"sealed":        func(c *jetstream.StreamConfig) { c.Sealed = true },
		"dedupe":        func(c *jetstream.StreamConfig) { c.Duplicates = time.Minute },
	}
	for name, change := range rows {
		c := ledger()
		change(&c)
		if CheckLedger(c) == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// An installation with orgs whose ledger is gone gets no fresh one.
func TestEnsureRefusesALostLedger(t *testing.T) {
	t.Parallel()
	in := install(t, false)
	setup, registrar := in.jetStream(t, Setup), in.jetStream(t, Registrar)
	if _, err := setup.CreateStream(brief(t), bucketStream(events.BucketOrgs, 1)); err != nil {
		t.Fatal(err)
	}
	kv, err := registrar.KeyValue(brief(t), events.BucketOrgs)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Create(brief(t), "acme", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if err := Ensure(brief(t), setup, 1); !errors.Is(err, ErrLedgerGone) {
		t.Fatalf("got %v", err)
	}
	if _, err := setup.Stream(brief(t), events.StreamLedger); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("a ledger was made: %v", err)
	}
}

func TestCredentialsFiles(t *testing.T) {
	t.Parallel()
	set, err := Generate(TokenHash(NewToken()))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := WriteCredentials(dir, set); err != nil {
		t.Fatal(err)
	}
	for _, worker := range append(Workers(), Setup) {
		c, err := LoadCredentials(dir + "/" + worker + ".json")
		if err != nil || c.Worker != worker || c.NATS != set[worker].NATS {
			t.Errorf("%s: %+v, %v", worker, c, err)
		}
	}
}

func TestToken(t *testing.T) {
	t.Parallel()
	token := NewToken()
	if !strings.HasPrefix(token, "tly_") || len(token) != 4+43+6 || !ValidToken(token) {
		t.Fatalf("token of %d characters", len(token))
	}
	other := byte('a')
	if token[20] == other {
		other = 'b'
	}
	for _, bad := range []string{"", "tly_", token[:len(token)-1], token + "0", token[:20] + string(other) + token[21:], "x" + token[1:]} {
		if ValidToken(bad) {
			t.Errorf("%d characters: taken", len(bad))
		}
	}
	if token == NewToken() {
		t.Error("two alike")
	}
}
