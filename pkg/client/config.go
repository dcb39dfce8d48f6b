package client

import (
	"crypto/tls"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
)

// Defaults of [Config].
const (
	DefaultTimeout  = 2 * time.Second
	DefaultAttempts = 6
	DefaultBackoff  = 50 * time.Millisecond
	DefaultDecision = 2 * time.Minute
	maxBackoff      = 2 * time.Second
)

// Config says where Tallystick is and who calls. Only URL and Token are
// needed.
type Config struct {
	// URL of the NATS server.
	URL string
	// Token of the agent, as registration answered it.
	Token string
	// Org and Agent are learned from the server when empty, at the price of
	// one short connection more.
	Org, Agent string
	// Name shows up in the server's list of connections.
	Name string
	// TLS is needed for tls:// servers with a private authority.
	TLS *tls.Config
	// Timeout bounds one attempt; the caller's context bounds all of them.
	Timeout time.Duration
	// Attempts bounds how often a request is sent under its key: 1 means that
	// nothing is repeated.
	Attempts int
	// Backoff is the first pause between attempts; it doubles, with jitter.
	Backoff time.Duration
	// DecisionTimeout bounds how long a durable command is waited for, where
	// the caller's context does not end earlier.
	DecisionTimeout time.Duration
	// JournalDir is where holds are written down before they are made, so that
	// a process that dies forgets none: the next Connect with this directory
	// delivers what is left. Empty: no journal. One client at a time can have a
	// directory, and it belongs to one agent. No token is written there.
	JournalDir string
	// OnRecovered hears what became of each hold that was left in the journal,
	// before Connect returns or, where the broker was away, later. It may be
	// nil.
	OnRecovered func(Recovered)
	// OnDisconnect and OnReconnect may be nil.
	OnDisconnect func(error)
	OnReconnect  func()
}

// Validate returns every problem at once.
func (c Config) Validate() error {
	var errs []error
	if c.URL == "" {
		errs = append(errs, errors.New("client: no URL"))
	}
	if c.Token == "" {
		errs = append(errs, errors.New("client: no token"))
	}
	if (c.Org == "") != (c.Agent == "") {
		errs = append(errs, errors.New("client: Org and Agent go together"))
	}
	if c.Timeout < 0 || c.Attempts < 0 || c.Backoff < 0 || c.DecisionTimeout < 0 {
		errs = append(errs, errors.New("client: time-outs, Attempts and Backoff must not be negative"))
	}
	return errors.Join(errs...)
}

func (c Config) withDefaults() Config {
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Attempts == 0 {
		c.Attempts = DefaultAttempts
	}
	if c.Backoff == 0 {
		c.Backoff = DefaultBackoff
	}
	if c.DecisionTimeout == 0 {
		c.DecisionTimeout = DefaultDecision
	}
	if c.Name == "" {
		c.Name = "tallystick-client"
	}
	return c
}

// options connect without giving up: an agent outlives a restart of the
// server, and a token that is refused while the registrar is away is asked
// again.
func (c Config) options(inbox string) []nats.Option {
	opts := []nats.Option{
		nats.Name(c.Name),
		nats.Token(c.Token),
		nats.CustomInboxPrefix(inbox),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(100 * time.Millisecond),
		nats.ReconnectJitter(100*time.Millisecond, time.Second),
		nats.IgnoreAuthErrorAbort(),
		// What is written while the server is away is lost at once instead of
		// sent later: the repetition under the same key decides, not a buffer.
		nats.ReconnectBufSize(-1),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if c.OnDisconnect != nil {
				c.OnDisconnect(err)
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) {
			if c.OnReconnect != nil {
				c.OnReconnect()
			}
		}),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}
	if c.TLS != nil {
		opts = append(opts, nats.Secure(c.TLS))
	}
	return opts
}
