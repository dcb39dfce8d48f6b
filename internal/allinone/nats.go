package allinone

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"tallystick/internal/topology"
)

const natsStart = 15 * time.Second

// NATSConfig says where the embedded NATS server lives.
type NATSConfig struct {
	Dir  string // of JetStream
	Addr string // HOST:PORT for clients; port 0 picks a free one
	Set  topology.Set
	Log  zerolog.Logger
}

// Validate returns every problem at once.
func (c NATSConfig) Validate() error {
	var errs []error
	if c.Dir == "" {
		errs = append(errs, errors.New("NATS: no directory"))
	}
	if _, _, err := c.hostPort(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (c NATSConfig) hostPort() (string, int, error) {
	host, text, err := net.SplitHostPort(c.Addr)
	if err != nil {
		return "", 0, fmt.Errorf("NATS address %q: %w", c.Addr, err)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("NATS address %q: no port number", c.Addr)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	if port == 0 {
		return host, server.RANDOM_PORT, nil
	}
	return host, int(port), nil
}

// NATS is the embedded server.
type NATS struct {
	// URL for clients; it carries no credentials.
	URL string

	server *server.Server
	set    topology.Set
}

// StartNATS starts a server with the accounts, rights and JetStream of an
// installation. Call Setup before the workers connect.
func StartNATS(c NATSConfig) (*NATS, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("NATS: %w", err)
	}
	host, port, _ := c.hostPort()
	listen := net.JoinHostPort(host, strconv.Itoa(port))
	text, err := topology.NATSConf(topology.NATSServer{Listen: listen, StoreDir: c.Dir, HashPasswords: true}, c.Set)
	if err != nil {
		return nil, err
	}
	opts := &server.Options{}
	if err := opts.ProcessConfigString(text); err != nil {
		return nil, fmt.Errorf("NATS configuration: %w", err)
	}
	opts.NoSigs = true
	s, err := server.NewServer(opts)
	if err != nil {
		return nil, fmt.Errorf("NATS: %w", err)
	}
	s.SetLoggerV2(natsLog{c.Log.With().Str("server", "nats").Logger()}, false, false, false)
	// It says nothing but a log line where it cannot listen, so ask first.
	if err := canListen(host, port); err != nil {
		return nil, fmt.Errorf("NATS: %w.\nhint: another program has that address; choose one with --nats HOST:PORT, port 0 picks a free one", err)
	}
	s.Start()
	n := &NATS{server: s, set: c.Set}
	if !s.ReadyForConnections(natsStart) {
		return nil, errors.Join(fmt.Errorf("NATS is not ready after %s", natsStart), n.Close())
	}
	n.URL = s.ClientURL()
	return n, nil
}

func canListen(host string, port int) error {
	ln, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(max(0, port))))
	if err != nil {
		return err
	}
	return ln.Close()
}

// Setup makes streams, buckets and consumers, as the one user who may.
func (n *NATS) Setup(ctx context.Context, replicas int) error {
	return topology.EnsureAll(ctx, func(_ string, u topology.User) (*nats.Conn, error) {
		return nats.Connect(n.URL, nats.UserInfo(u.User, u.Password), nats.InProcessServer(n.server),
			nats.Name("tallystick-setup"), nats.CustomInboxPrefix("_INBOX.setup"))
	}, n.set[topology.Setup], replicas)
}

// Close ends the server and waits for it: everything is synced then.
func (n *NATS) Close() error {
	n.server.Shutdown()
	n.server.WaitForShutdown()
	return nil
}

// natsLog passes on what the server has to say. What it calls a notice is of
// interest to whoever looks for a fault.
type natsLog struct{ log zerolog.Logger }

func (l natsLog) Noticef(format string, v ...any) { l.log.Debug().Msgf(format, v...) }
func (l natsLog) Warnf(format string, v ...any)   { l.log.Warn().Msgf(format, v...) }
func (l natsLog) Fatalf(format string, v ...any)  { l.log.Error().Msgf(format, v...) }
func (l natsLog) Errorf(format string, v ...any)  { l.log.Error().Msgf(format, v...) }
func (l natsLog) Debugf(format string, v ...any)  { l.log.Debug().Msgf(format, v...) }
func (l natsLog) Tracef(format string, v ...any)  { l.log.Trace().Msgf(format, v...) }
