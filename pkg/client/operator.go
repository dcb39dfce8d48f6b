package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"tallystick/pkg/events"
)

// Operator administers orgs, pools and agents, and resolves what agents left
// behind. Its requests are not repeated by themselves.
type Operator struct{ nc *nats.Conn }

// ConnectOperator connects with an operator's token.
func ConnectOperator(url, token string) (*Operator, error) {
	nc, err := nats.Connect(url,
		nats.Name("tallystick-operator"),
		nats.Token(token),
		nats.CustomInboxPrefix("_INBOX.admin"),
		nats.Timeout(5*time.Second),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(),
		nats.ReconnectBufSize(-1),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		return nil, connectError(err)
	}
	return &Operator{nc}, nil
}

// Close ends the connection.
func (o *Operator) Close() { o.nc.Close() }

// Do asks one admin verb with a request that encodes to a JSON object. The
// key is needed for settle and release. An error answer is an *events.Error;
// its body is returned with it.
func (o *Operator) Do(ctx context.Context, verb, key string, req any) ([]byte, error) {
	body, err := json.Marshal(req)
	if err != nil {
		return nil, fmt.Errorf("client: %s: %w", verb, err)
	}
	msg := nats.NewMsg(events.Admin(verb))
	msg.Data = body
	if key != "" {
		msg.Header.Set(events.HeaderKey, key)
	}
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, operatorTimeout)
		defer cancel()
	}
	reply, err := o.nc.RequestMsgWithContext(ctx, msg)
	if err != nil {
		return nil, transportError(verb, err)
	}
	if e := events.ParseError(reply.Data); e != nil {
		return reply.Data, answered(e)
	}
	if !json.Valid(reply.Data) {
		return reply.Data, errors.New("client: the answer to " + verb + " is no JSON")
	}
	return reply.Data, nil
}

// operatorTimeout bounds a request whose context has no deadline: a worker
// that is gone for good should not hang its operator.
const operatorTimeout = 30 * time.Second
