package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"tallystick/pkg/events"
)

// adminInbox begins every operator's inbox.
const adminInbox = inboxPrefix + "admin."

// AdminRequest is one request of an operator.
type AdminRequest struct {
	Verb  string
	Key   string
	Trace string
	Body  []byte
}

// AdminFunc answers an operator. An error that is not an *events.Error is
// answered `internal`, with an incident id that leads to it in the log.
type AdminFunc func(ctx context.Context, r AdminRequest) ([]byte, error)

// AdminConfig tells an Admin what it serves and where.
type AdminConfig struct {
	Name  string     // the role: queue group
	Conn  *nats.Conn // in account ADMIN
	Verbs map[string]AdminFunc

	InFlightMax  int           // requests at once; more are refused; default 16
	Timeout      time.Duration // for one request; default 10 s
	DrainTimeout time.Duration // default 10 s
	Log          zerolog.Logger
}

// Validate reports everything that is missing.
func (c AdminConfig) Validate() error {
	var errs []error
	if c.Name == "" {
		errs = append(errs, errors.New("admin: Name is empty"))
	}
	if c.Conn == nil {
		errs = append(errs, errors.New("admin: Conn is missing"))
	}
	if len(c.Verbs) == 0 {
		errs = append(errs, errors.New("admin: no verbs to serve"))
	}
	return errors.Join(errs...)
}

// Admin serves request-reply verbs of operators.
type Admin struct {
	cfg     AdminConfig
	slots   chan struct{}
	started chan struct{}
	running sync.WaitGroup
}

// NewAdmin makes an Admin; Run starts it.
func NewAdmin(cfg AdminConfig) (*Admin, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.InFlightMax <= 0 {
		cfg.InFlightMax = 16
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 10 * time.Second
	}
	if cfg.DrainTimeout <= 0 {
		cfg.DrainTimeout = 10 * time.Second
	}
	return &Admin{cfg: cfg, slots: make(chan struct{}, cfg.InFlightMax), started: make(chan struct{})}, nil
}

// ServeAdmin runs an Admin until ctx ends.
func ServeAdmin(ctx context.Context, cfg AdminConfig) error {
	a, err := NewAdmin(cfg)
	if err != nil {
		return err
	}
	return a.Run(ctx)
}

// Started is closed once every verb is heard.
func (a *Admin) Started() <-chan struct{} { return a.started }

// Run serves until ctx ends and returns when the last answer is flushed.
func (a *Admin) Run(ctx context.Context) error {
	work := context.WithoutCancel(ctx)
	d := &doors{}
	err := a.open(work, d)
	if err == nil {
		close(a.started)
		<-ctx.Done()
	}
	err = errors.Join(err, d.close(a.cfg.DrainTimeout))
	a.running.Wait()
	if flushErr := a.cfg.Conn.FlushTimeout(a.cfg.DrainTimeout); flushErr != nil {
		err = errors.Join(err, fmt.Errorf("admin %s: last flush: %w", a.cfg.Name, flushErr))
	}
	return err
}

func (a *Admin) open(ctx context.Context, d *doors) error {
	for verb, serve := range a.cfg.Verbs {
		sub, err := a.cfg.Conn.QueueSubscribe(events.Admin(verb), a.cfg.Name, func(m *nats.Msg) { a.onRequest(ctx, verb, serve, m) })
		if err != nil {
			return fmt.Errorf("admin %s: subscribe %s: %w", a.cfg.Name, verb, err)
		}
		closed := make(chan struct{})
		sub.SetClosedHandler(func(string) { close(closed) })
		d.subs, d.closed = append(d.subs, sub), append(d.closed, closed)
	}
	if err := a.cfg.Conn.FlushTimeout(a.cfg.Timeout); err != nil {
		return fmt.Errorf("admin %s: subscribe: %w", a.cfg.Name, err)
	}
	return nil
}

// onRequest starts a request, or refuses it while too many are running. An
// operator waits for its answer, so one that names no inbox, or another's, is
// not executed.
func (a *Admin) onRequest(ctx context.Context, verb string, serve AdminFunc, m *nats.Msg) {
	rest, ok := strings.CutPrefix(m.Reply, adminInbox)
	if !ok || rest == "" || strings.ContainsAny(rest, "*>") {
		return
	}
	select {
	case a.slots <- struct{}{}:
	default:
		a.respond(m.Reply, nil, events.Overloaded(agentRetryMS))
		return
	}
	a.running.Go(func() {
		defer func() { <-a.slots }()
		ctx, cancel := context.WithTimeout(ctx, a.cfg.Timeout)
		defer cancel()
		body, err := a.serve(ctx, serve, AdminRequest{
			Verb: verb, Key: m.Header.Get(events.HeaderKey), Trace: traceparent(m.Header.Get(events.HeaderTrace)), Body: m.Data,
		})
		a.respond(m.Reply, body, err)
	})
}

func (a *Admin) serve(ctx context.Context, serve AdminFunc, r AdminRequest) (body []byte, err error) {
	defer func() {
		if v := recover(); v != nil {
			id := incident()
			a.cfg.Log.Error().Str("incident", id).Str("verb", r.Verb).Any("panic", fmt.Sprint(v)).Bytes("stack", debug.Stack()).Msg("admin handler panicked")
			body, err = nil, events.Internal(id)
		}
	}()
	return serve(ctx, r)
}

func (a *Admin) respond(reply string, body []byte, err error) {
	if err == nil {
		_ = a.cfg.Conn.Publish(reply, body)
		return
	}
	var e *events.Error
	if !errors.As(err, &e) {
		id := incident()
		a.cfg.Log.Error().Err(err).Str("incident", id).Msg("admin request failed")
		e = events.Internal(id)
	}
	answer := ErrorAnswer(e)
	_ = a.cfg.Conn.PublishMsg(&nats.Msg{Subject: reply, Header: answerHeader(&answer), Data: answer.Body})
}
