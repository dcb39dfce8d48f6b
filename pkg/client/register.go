package client

import (
	"context"
	"errors"

	"tallystick/pkg/events"
)

// Register makes a child of the caller. Its token is shown in this answer and
// nowhere else; a repetition under the same key, also the one inside this
// package after a lost answer, gives the same agent with a fresh token and
// ends the earlier one.
func (c *Client) Register(ctx context.Context, key string, q events.Register) (events.RegisterAnswer, error) {
	return ask(ctx, c, events.VerbRegister, key, q, events.ParseRegisterAnswer)
}

// Revoke ends an agent of the caller's own subtree, with its descendants.
func (c *Client) Revoke(ctx context.Context, key string, q events.Revoke) (events.RevokeAnswer, error) {
	return ask(ctx, c, events.VerbRevoke, key, q, events.ParseRevokeAnswer)
}

// Child connects as an agent that [Client.Register] made, with this client's
// Config. It has no journal: the token that would be needed to deliver what is
// left in one ends with this process.
func (c *Client) Child(ctx context.Context, a events.RegisterAnswer) (*Client, error) {
	if a.Token == "" || a.Org == "" || a.Agent == "" {
		return nil, errors.New("client: this answer registered nobody")
	}
	cfg := c.cfg
	cfg.Token, cfg.Org, cfg.Agent = a.Token, a.Org, a.Agent
	cfg.JournalDir, cfg.OnRecovered = "", nil
	return Connect(ctx, cfg)
}

// BrokerArgumentError means that the request carried a field which only the
// broker sets, such as rootId: an agent cannot say who it is.
type BrokerArgumentError struct {
	Field string
	Err   *events.Error
}

func (e *BrokerArgumentError) Error() string { return e.Err.Error() }
func (e *BrokerArgumentError) Unwrap() error { return e.Err }

// answered gives an error answer the type that callers tell it by.
func answered(e *events.Error) error {
	if e.Code == events.CodeBrokerArgument {
		return &BrokerArgumentError{Field: e.Field, Err: e}
	}
	return e
}
