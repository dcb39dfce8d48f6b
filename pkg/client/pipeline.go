package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"tallystick/pkg/events"
)

// nextSubject is where a pipeline asks its consumer for decisions.
const nextSubject = "$JS.API.CONSUMER.MSG.NEXT." + events.StreamDecisions + "."

// fetchWait is how long one question stays open at the server. A question that
// was lost with its connection is asked again after that.
const fetchWait = 5 * time.Second

// Pipeline reads the decisions of an org's durable commands, also those that
// were made while nobody listened. It can do nothing else: what is to be
// settled, an agent settles. It is safe for concurrent use, and several
// processes with one token share the work.
type Pipeline struct {
	nc       *nats.Conn
	cfg      Config
	org, id  string
	consumer string
}

// Decision is one decision of a durable command. Each is delivered at least
// once: until it is acknowledged it comes again after thirty seconds.
type Decision struct {
	Org, Agent string // whose command it was
	Verb, Key  string
	// Outcome and Reason are those of [Answer]; Err is set instead where the
	// decision is an error.
	Outcome, Reason string
	Err             *events.Error
	Body            []byte

	nc    *nats.Conn
	reply string
}

// ConnectPipeline connects as the pipeline identity that the token belongs to.
// Config.Org is learned from the server; Config.Agent must be empty.
func ConnectPipeline(ctx context.Context, cfg Config) (*Pipeline, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Agent != "" {
		return nil, errors.New("client: a pipeline identity is no agent")
	}
	cfg = cfg.withDefaults()
	org, id, err := learnPipeline(ctx, cfg)
	if err != nil {
		return nil, err
	}
	nc, err := nats.Connect(cfg.URL, cfg.options(events.InboxPrefix(id))...)
	if err != nil {
		return nil, connectError(err)
	}
	return &Pipeline{nc: nc, cfg: cfg, org: org, id: id, consumer: events.PipelineConsumer(org, id)}, nil
}

// Close ends the connection. Decisions that were not acknowledged come again.
func (p *Pipeline) Close() { p.nc.Close() }

// Org names the org whose decisions these are.
func (p *Pipeline) Org() string { return p.org }

// Submit stores a command through the durable door and goes on without waiting
// for its decision, which a pipeline hears of. Like every other request it is
// repeated under its key while nothing was stored.
func (c *Client) Submit(ctx context.Context, req Request) error {
	if !events.BothDoors(req.Verb) {
		return fmt.Errorf("client: %s has no durable door", req.Verb)
	}
	for attempt := 1; ; attempt++ {
		ans, err := c.once(ctx, req, events.DoorCmd)
		if err == nil && ans.Outcome != "accepted" {
			return fmt.Errorf("client: the durable door answered %q", ans.Outcome)
		}
		if err == nil || !repeatable(err) || attempt >= c.cfg.Attempts {
			return err
		}
		if ended := c.pause(ctx, attempt, err); ended != nil {
			return giveUp(ended, err)
		}
	}
}

// Next waits for one decision, until ctx ends.
func (p *Pipeline) Next(ctx context.Context) (Decision, error) {
	all, err := p.Fetch(ctx, 1)
	if err != nil {
		return Decision{}, err
	}
	return all[0], nil
}

// Fetch waits until there is a decision, and gives what there is then, up to
// most. An error says that the server does not answer, or that ctx has ended.
func (p *Pipeline) Fetch(ctx context.Context, most int) ([]Decision, error) {
	if most < 1 {
		return nil, errors.New("client: fetch at least one decision")
	}
	for silent := 0; ; {
		got, answered, err := p.ask(ctx, most, 0)
		if err == nil && len(got) == 0 && answered {
			got, answered, err = p.ask(ctx, 1, fetchWait)
		}
		if len(got) > 0 || err != nil {
			return got, err
		}
		if answered {
			silent = 0
			continue
		}
		if silent++; silent >= p.cfg.Attempts {
			return nil, fmt.Errorf("client: %w", unavailable("no answer: the server is out of reach, or the pipeline was removed"))
		}
	}
}

// ask sends one question: for what there is now, or, where wait is not 0, for
// what comes in that time. Answered tells whether the server said anything.
func (p *Pipeline) ask(ctx context.Context, most int, wait time.Duration) (got []Decision, answered bool, err error) {
	sub, err := p.nc.SubscribeSync(p.nc.NewInbox())
	if err != nil {
		return nil, false, transportError("fetch", err)
	}
	// The connection may be gone by now, and the subscription with it.
	defer func() { _ = sub.Unsubscribe() }()
	question := fmt.Sprintf(`{"batch":%d,"no_wait":true}`, most)
	if wait > 0 {
		question = fmt.Sprintf(`{"batch":%d,"expires":%d}`, most, wait.Nanoseconds())
	}
	// An error of publishing is silence: the connection is being made again.
	_ = p.nc.PublishRequest(nextSubject+p.consumer, sub.Subject, []byte(question))
	limit, cancel := context.WithTimeout(ctx, wait+p.cfg.Timeout)
	defer cancel()
	for len(got) < most {
		msg, err := sub.NextMsgWithContext(limit)
		switch {
		case ctx.Err() != nil && len(got) == 0:
			return nil, answered, fmt.Errorf("client: fetch: %w", ctx.Err())
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
			return got, answered, nil
		case errors.Is(err, nats.ErrNoResponders):
			<-limit.Done() // nobody is there to ask; not at once again
			return got, false, nil
		case err != nil:
			return got, answered, transportError("fetch", err)
		}
		answered = true
		if msg.Header.Get("Status") != "" {
			return got, true, nil
		}
		if d, ok := p.decision(msg); ok {
			got = append(got, d)
		}
	}
	return got, true, nil
}

// decision reads what arrived. What is not from this pipeline's own consumer
// is dropped: identities of other orgs share the account, and whoever guessed
// an inbox could send into it.
func (p *Pipeline) decision(msg *nats.Msg) (Decision, bool) {
	org, agent, _, ok := events.ParseKeptDecision(msg.Subject)
	if !ok || org != p.org || !strings.HasPrefix(msg.Reply, "$JS.ACK.") ||
		!strings.Contains(msg.Reply, "."+events.StreamDecisions+"."+p.consumer+".") {
		return Decision{}, false
	}
	d := Decision{
		Org: org, Agent: agent, Verb: msg.Header.Get(events.HeaderVerb), Key: msg.Header.Get(events.HeaderTallyKey),
		Body: msg.Data, nc: p.nc, reply: msg.Reply,
	}
	ans, err := parse(msg)
	if err != nil && !errors.As(err, &d.Err) {
		d.Err = &events.Error{Code: events.CodeInternal, Message: err.Error()}
	}
	d.Outcome, d.Reason = ans.Outcome, ans.Reason
	return d, true
}

// Ack says that the decision is dealt with, and returns when the server has
// that: it does not come again. Acknowledge what is done, not what is begun.
func (d Decision) Ack(ctx context.Context) error {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, fetchWait)
		defer cancel()
	}
	if _, err := d.nc.RequestWithContext(ctx, d.reply, []byte("+ACK")); err != nil {
		return transportError("ack", err)
	}
	return nil
}

// Nak gives the decision back; it comes again after the delay.
func (d Decision) Nak(ctx context.Context, delay time.Duration) error {
	if err := d.nc.Publish(d.reply, fmt.Appendf(nil, `-NAK {"delay":%d}`, delay.Nanoseconds())); err != nil {
		return transportError("nak", err)
	}
	if err := d.nc.FlushWithContext(ctx); err != nil {
		return transportError("nak", err)
	}
	return nil
}

// learnPipeline asks the server whom the token belongs to, as learn does for
// an agent: the one consumer that it may fetch from says it.
func learnPipeline(ctx context.Context, cfg Config) (org, id string, err error) {
	allowed, err := permitted(ctx, cfg)
	if err != nil {
		return "", "", err
	}
	for _, subject := range allowed {
		if name, found := strings.CutPrefix(subject, nextSubject); found {
			if org, id, ok := events.ParsePipelineConsumer(name); ok {
				return org, id, nil
			}
		}
	}
	return "", "", errors.New("client: this token belongs to no pipeline")
}
