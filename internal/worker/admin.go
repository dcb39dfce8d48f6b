package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"tallystick/pkg/events"
)

// adminInbox begins the operator's inbox.
const adminInbox = inboxPrefix + "admin."

// AdminRequest is one request of the operator or of an org's admin, which is
// about that org: the door has compared them.
type AdminRequest struct {
	Verb  string
	Key   string
	Trace string
	Body  []byte

	By  string // events.ByOperator or the admin's id, as the subject attests
	Why string // the reason that was given, or ""
}

// AdminFunc answers an operator. An error that is not an *events.Error is
// answered `internal`, with an incident id that leads to it in the log.
type AdminFunc func(ctx context.Context, r AdminRequest) ([]byte, error)

// AdminConfig tells an Admin what it serves and where.
type AdminConfig struct {
	Name  string     // the role: queue group
	Conn  *nats.Conn // in account ADMIN
	Verbs map[string]AdminFunc
	// Admins are the orgs' admins; nil serves the operator alone.
	Admins Admins

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

// Admin serves request-reply verbs of the operator and of orgs' admins.
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
		subjects := []string{events.Admin(verb)}
		if a.cfg.Admins != nil {
			subjects = append(subjects, events.OrgAdmin("*", "*", verb))
		}
		for _, subject := range subjects {
			sub, err := a.cfg.Conn.QueueSubscribe(subject, a.cfg.Name, func(m *nats.Msg) { a.onRequest(ctx, verb, serve, m) })
			if err != nil {
				return fmt.Errorf("admin %s: subscribe %s: %w", a.cfg.Name, subject, err)
			}
			closed := make(chan struct{})
			sub.SetClosedHandler(func(string) { close(closed) })
			d.subs, d.closed = append(d.subs, sub), append(d.closed, closed)
		}
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
	who, ok := sender(m)
	if !ok {
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
		body, err := a.serve(ctx, serve, who, AdminRequest{
			Verb: verb, Key: m.Header.Get(events.HeaderKey), Trace: traceparent(m.Header.Get(events.HeaderTrace)), Body: m.Data,
			By: who.by(), Why: m.Header.Get(events.HeaderReason),
		})
		a.respond(m.Reply, body, err)
	})
}

func (a *Admin) serve(ctx context.Context, serve AdminFunc, who orgAdmin, r AdminRequest) (body []byte, err error) {
	defer func() {
		if v := recover(); v != nil {
			id := incident()
			a.cfg.Log.Error().Str("incident", id).Str("verb", r.Verb).Any("panic", fmt.Sprint(v)).Bytes("stack", debug.Stack()).Msg("admin handler panicked")
			body, err = nil, events.Internal(id)
		}
	}()
	if err := a.mayNot(ctx, who, r); err != nil {
		return nil, err
	}
	if e := events.CheckReason(r.Why); e != nil {
		return nil, e
	}
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
