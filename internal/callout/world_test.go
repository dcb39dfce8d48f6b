package callout

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"tallystick/internal/registry"
	"tallystick/internal/testkit"
	"tallystick/internal/topology"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// identity is one agent with its token.
type identity struct {
	org, agent, token string
	expiresAt         time.Time
}

// admin is one admin of an org with its token.
type admin struct{ org, admin, role, token string }

// tokens is a directory of agents by their tokens' hashes.
type tokens struct {
	mu     sync.Mutex
	byHash map[string]identity
	admins map[string]admin
	piped  map[string]identity // of pipeline identities
	err    error
	asked  int
}

func (k *tokens) Token(_ context.Context, hash string) (string, string, time.Time, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked++
	if k.err != nil {
		return "", "", time.Time{}, k.err
	}
	i, ok := k.byHash[hash]
	if !ok {
		return "", "", time.Time{}, registry.ErrNotFound
	}
	return i.org, i.agent, i.expiresAt, nil
}

func (k *tokens) AdminToken(_ context.Context, hash string) (string, string, string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	i, ok := k.admins[hash]
	if !ok {
		return "", "", "", registry.ErrNotFound
	}
	return i.org, i.admin, i.role, nil
}

func (k *tokens) PipelineToken(_ context.Context, hash string) (string, string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err != nil {
		return "", "", k.err
	}
	i, ok := k.piped[hash]
	if !ok {
		return "", "", registry.ErrNotFound
	}
	return i.org, i.agent, nil
}

func (k *tokens) looked() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.asked
}

func (k *tokens) fail(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = err
}

// world is a server with its callout.
type world struct {
	url      string
	operator string
	set      topology.Set
	tokens   *tokens
	log      *lockedLog
	lifetime time.Duration
}

type lockedLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldWith(t, 0)
}

func newWorldWith(t *testing.T, lifetime time.Duration) *world {
	t.Helper()
	known := &tokens{byHash: map[string]identity{}, admins: map[string]admin{}, piped: map[string]identity{}}
	w := &world{operator: topology.NewToken(), tokens: known, log: &lockedLog{}, lifetime: lifetime}
	var err error
	if w.set, err = topology.Generate(topology.TokenHash(w.operator)); err != nil {
		t.Fatal(err)
	}
	text, err := topology.NATSConf(topology.NATSServer{Listen: "127.0.0.1:-1", StoreDir: t.TempDir()}, w.set)
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
	w.url = s.ClientURL()
	w.serve(t)
	return w
}

func (w *world) serve(t *testing.T) {
	t.Helper()
	registrar := w.set[topology.Registrar]
	auth := w.connect(t, nats.UserInfo(registrar.NATS.Auth.User, registrar.NATS.Auth.Password))
	s, err := New(Config{Conn: auth, Keys: *registrar.Callout, Tokens: w.tokens, Log: zerolog.New(w.log), Lifetime: w.lifetime})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("callout: %v", err)
		}
	})
	select {
	case <-s.Started():
	case err := <-done:
		t.Fatalf("callout: %v", err)
	}
}

func (w *world) dial(opts ...nats.Option) (*nats.Conn, error) {
	return nats.Connect(w.url, append([]nats.Option{
		nats.NoReconnect(), nats.Timeout(10 * time.Second), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}, opts...)...)
}

func (w *world) connect(t *testing.T, opts ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := w.dial(opts...)
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

func (w *world) register(org string) identity {
	i := identity{org: org, agent: uuid.Must(uuid.NewV7()).String(), token: topology.NewToken()}
	w.put(i)
	return i
}

func (w *world) put(i identity) {
	w.tokens.mu.Lock()
	defer w.tokens.mu.Unlock()
	w.tokens.byHash[topology.TokenHash(i.token)] = i
}

func (w *world) agent(t *testing.T, i identity) *nats.Conn {
	t.Helper()
	return w.connect(t, nats.Token(i.token), nats.CustomInboxPrefix("_INBOX."+i.agent))
}
