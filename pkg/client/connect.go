package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"tallystick/pkg/events"
)

// Client speaks for one agent. It is safe for concurrent use.
type Client struct {
	nc         *nats.Conn
	cfg        Config
	org, agent string
	durable    bool
	journal    *journal // nil without one
}

// Connect connects as the agent that the token belongs to. With a journal it
// also delivers what an earlier process left in it, as [Client.Recover] does.
// What cannot be delivered does not keep it from connecting: it is told to
// Config.OnRecovered and tried again until the client is closed.
func Connect(ctx context.Context, cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &Client{cfg: cfg.withDefaults()}
	if cfg.JournalDir != "" {
		var err error
		if c.journal, err = openJournal(cfg.JournalDir); err != nil {
			return nil, err
		}
	}
	if err := c.dial(ctx); err != nil {
		return nil, errors.Join(err, c.journal.close())
	}
	c.recoverAndTell(ctx)
	return c, nil
}

func (c *Client) dial(ctx context.Context) (err error) {
	c.org, c.agent = c.cfg.Org, c.cfg.Agent
	if c.agent == "" {
		if c.org, c.agent, err = learn(ctx, c.cfg); err != nil {
			return err
		}
	}
	if c.nc, err = nats.Connect(c.cfg.URL, c.cfg.options(events.InboxPrefix(c.agent))...); err != nil {
		return connectError(err)
	}
	return nil
}

// Close ends the connection and gives the journal up. Views made by
// [Client.Durable] end with it. Holds that still run should end first.
func (c *Client) Close() {
	c.nc.Close()
	// An unlock that fails leaves nothing locked: the file is closed with it.
	_ = c.journal.close()
}

// Org and Agent name the caller as the broker knows it.
func (c *Client) Org() string { return c.org }

// Agent is the id that the broker issued.
func (c *Client) Agent() string { return c.agent }

// Durable is the same client through the durable door. Verbs that only read
// stay at the direct one.
func (c *Client) Durable() *Client {
	d := *c
	d.durable = true
	return &d
}

// learn asks the server whom the token belongs to. The server attests it: the
// subjects that the connection may publish to name org and agent. The inbox
// for this one question is derived from the token, because nobody else could
// subscribe to it.
func learn(ctx context.Context, cfg Config) (org, agent string, err error) {
	allowed, err := permitted(ctx, cfg)
	if err != nil {
		return "", "", err
	}
	for _, subject := range allowed {
		// tally.v1.<org>.<agent>.rpc.*, with any verb in place of the star.
		concrete := strings.TrimSuffix(subject, "*") + events.VerbWhoami
		if org, agent, door, _, ok := events.ParseAgentSubject(concrete); ok && door == events.DoorRpc {
			return org, agent, nil
		}
	}
	return "", "", errors.New("client: this token belongs to no agent")
}

// permitted asks the server what the token's connection may publish.
func permitted(ctx context.Context, cfg Config) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	return allowedTo(ctx, cfg.URL, cfg.options(bootstrapInbox(cfg.Token)))
}

// bootstrapInbox is the inbox that a token alone gives.
func bootstrapInbox(token string) string {
	sum := sha256.Sum256([]byte(token))
	return events.InboxPrefix(hex.EncodeToString(sum[:16]))
}

// allowedTo asks the server, on a short connection, what its user may publish.
func allowedTo(ctx context.Context, url string, opts []nats.Option) ([]string, error) {
	nc, err := nats.Connect(url, opts...)
	if err != nil {
		return nil, connectError(err)
	}
	defer nc.Close()
	msg, err := nc.RequestWithContext(ctx, "$SYS.REQ.USER.INFO", nil)
	if err != nil {
		return nil, fmt.Errorf("client: ask the server who this token is: %w", err)
	}
	var info struct {
		Data struct {
			Permissions struct {
				Publish struct {
					Allow []string `json:"allow"`
				} `json:"publish"`
			} `json:"permissions"`
		} `json:"data"`
	}
	if err := json.Unmarshal(msg.Data, &info); err != nil {
		return nil, fmt.Errorf("client: the server's answer about this token: %w", err)
	}
	return info.Data.Permissions.Publish.Allow, nil
}

// connectError tells a refused token from a server that is away.
func connectError(err error) error {
	if errors.Is(err, nats.ErrAuthorization) {
		return &AuthError{Err: err}
	}
	return fmt.Errorf("client: %w", errors.Join(unavailable("the server is out of reach"), err))
}

// AuthError means that the server refused the token, or that its holder has
// no such right.
type AuthError struct{ Err error }

func (e *AuthError) Error() string {
	if errors.Is(e.Err, nats.ErrAuthorization) {
		return "client: the server refused the token: " + e.Err.Error()
	}
	return "client: not authorised: " + e.Err.Error()
}

func (e *AuthError) Unwrap() error { return e.Err }

// unavailable is this side's own error of the contract's kind: nothing
// answered, so the outcome is unknown and the same key may be asked again.
func unavailable(message string) *events.Error {
	return &events.Error{Code: events.CodeUnavailable, Message: message, Retryable: true, Hint: "repeat with the same key"}
}
