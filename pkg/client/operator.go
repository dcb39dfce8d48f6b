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
// behind: the installation's own operator, or an admin of one org within that
// org. Its requests are not repeated by themselves.
type Operator struct {
	nc         *nats.Conn
	org, admin string          // of an org's admin
	may        map[string]bool // its verbs
	reason     string
}

// ConnectOperator connects with the operator's token or with an admin's.
func ConnectOperator(url, token string) (*Operator, error) {
	o, inbox, err := learnOperator(url, token)
	if err != nil {
		return nil, err
	}
	if o.nc, err = nats.Connect(url, operatorOptions(token, inbox)...); err != nil {
		return nil, connectError(err)
	}
	return o, nil
}

func operatorOptions(token, inbox string) []nats.Option {
	return []nats.Option{
		nats.Name("tallystick-operator"),
		nats.Token(token),
		nats.CustomInboxPrefix(inbox),
		nats.Timeout(connectTimeout),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(),
		nats.ReconnectBufSize(-1),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}
}

const connectTimeout = 5 * time.Second

// learnOperator asks the server whose the token is, as an agent does.
func learnOperator(url, token string) (o *Operator, inbox string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
	defer cancel()
	allowed, err := allowedTo(ctx, url, operatorOptions(token, bootstrapInbox(token)))
	if err != nil {
		return nil, "", err
	}
	o = &Operator{may: map[string]bool{}}
	for _, subject := range allowed {
		if subject == events.AllAdmin {
			return o, "_INBOX.admin", nil
		}
		if org, admin, verb, ok := events.ParseOrgAdminSubject(subject); ok {
			o.org, o.admin, o.may[verb] = org, admin, true
		}
	}
	if o.admin == "" {
		return nil, "", &AuthError{Err: errors.New("this token is no operator's and no admin's")}
	}
	return o, events.AdminInboxPrefix(o.admin), nil
}

// Org is the org that an admin's token is for, "" for the operator's.
func (o *Operator) Org() string { return o.org }

// Admin is the admin's id, "" for the operator.
func (o *Operator) Admin() string { return o.admin }

// Because is the same operator, giving a reason that the ledger will tell.
func (o *Operator) Because(reason string) *Operator {
	p := *o
	p.reason = reason
	return &p
}

// subject is where a verb is asked, or why it cannot be.
func (o *Operator) subject(verb string) (string, error) {
	if o.admin == "" {
		return events.Admin(verb), nil
	}
	if !o.may[verb] {
		return "", &AuthError{Err: fmt.Errorf("the role of this admin in %s has no %s", o.org, verb)}
	}
	return events.OrgAdmin(o.org, o.admin, verb), nil
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
	subject, err := o.subject(verb)
	if err != nil {
		return nil, err
	}
	msg := nats.NewMsg(subject)
	msg.Data = body
	if o.reason != "" {
		msg.Header.Set(events.HeaderReason, o.reason)
	}
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
