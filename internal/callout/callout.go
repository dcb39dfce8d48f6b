// Package callout decides whom the NATS server lets in: agents, admins of orgs,
// pipeline identities and the operator, each by a token. The server asks for every connection that is
// not a worker's, and enforces what it is told.
//
// The answer to a token is a user whose only rights are that agent's own
// subjects, so the subject a worker sees is an identity that the server
// attests. A revoked agent is let in: it may still settle and release. An
// expired one is not, and a connection ends when its agent expires. No
// connection outlives Config.Lifetime: the client comes back by itself and is
// looked up again, so a token that was rotated away ends everywhere.
//
// Whatever goes wrong, nobody gets in. Tokens are never logged.
package callout

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"tallystick/internal/registry"
	"tallystick/internal/topology"
)

const (
	requestSubject = "$SYS.REQ.USER.AUTH"
	queueGroup     = topology.Registrar
	inFlightMax    = 64
	// lookupTimeout is below the server's own time-out, so that a refusal is
	// heard as one.
	lookupTimeout = 3 * time.Second
	stopTimeout   = 5 * time.Second
	// subscriptionsMax: an agent may wait for 1,024 decisions at once.
	subscriptionsMax = 4096
)

// Tokens finds whose a token is, by its SHA-256 in hex: registry.ErrNotFound
// where it is nobody's, or its agent has expired or its admin was removed.
type Tokens interface {
	Token(ctx context.Context, hash string) (org, agent string, expiresAt time.Time, err error)
	AdminToken(ctx context.Context, hash string) (org, admin, role string, err error)
	PipelineToken(ctx context.Context, hash string) (org, pipeline string, err error)
}

// Config of a Service.
type Config struct {
	Conn   *nats.Conn // in account AUTH
	Keys   topology.Callout
	Tokens Tokens
	Log    zerolog.Logger

	// Lifetime bounds an agent's connection; default 1 h.
	Lifetime time.Duration
}

const lifetimeDefault = time.Hour

// Validate reports everything that is missing.
func (c Config) Validate() error {
	var errs []error
	if c.Conn == nil {
		errs = append(errs, errors.New("callout: no connection in AUTH"))
	}
	if c.Tokens == nil {
		errs = append(errs, errors.New("callout: no Tokens"))
	}
	if c.Keys.IssuerSeed == "" || len(c.Keys.AdminTokenHash) != 64 {
		errs = append(errs, errors.New("callout: no issuer seed, or no operator token's SHA-256"))
	}
	return errors.Join(errs...)
}

// Service answers the server; Run starts it.
type Service struct {
	cfg     Config
	issuer  nkeys.KeyPair
	slots   chan struct{}
	started chan struct{}
	answers *prometheus.CounterVec
}

// New makes a Service.
func New(cfg Config) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Lifetime <= 0 {
		cfg.Lifetime = lifetimeDefault
	}
	issuer, err := nkeys.FromSeed([]byte(cfg.Keys.IssuerSeed))
	if err != nil {
		return nil, fmt.Errorf("callout: issuer key: %w", err)
	}
	return &Service{
		cfg: cfg, issuer: issuer, slots: make(chan struct{}, inFlightMax), started: make(chan struct{}),
		answers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tally_callout_answers_total", Help: "Sign-ins by outcome.",
		}, []string{"outcome"}),
	}, nil
}

// Started is closed once the server's questions are heard.
func (s *Service) Started() <-chan struct{} { return s.started }

// Collectors are the service's metrics.
func (s *Service) Collectors() []prometheus.Collector { return []prometheus.Collector{s.answers} }

// Run answers until ctx ends, and returns when the last answer is out.
func (s *Service) Run(ctx context.Context) error {
	work := context.WithoutCancel(ctx)
	var running sync.WaitGroup
	closed := make(chan struct{})
	// The subscription's goroutine waits for a slot: what cannot be answered
	// now waits in the client's buffer, and at last times out at the server.
	sub, err := s.cfg.Conn.QueueSubscribe(requestSubject, queueGroup, func(m *nats.Msg) {
		s.slots <- struct{}{}
		running.Go(func() {
			defer func() { <-s.slots }()
			s.onRequest(work, m)
		})
	})
	if err != nil {
		return fmt.Errorf("callout: subscribe: %w", err)
	}
	sub.SetClosedHandler(func(string) { close(closed) })
	err = s.cfg.Conn.FlushTimeout(stopTimeout)
	if err == nil {
		close(s.started)
		<-ctx.Done()
	}
	if drainErr := sub.Drain(); drainErr == nil {
		timer := time.NewTimer(stopTimeout)
		defer timer.Stop()
		select {
		case <-closed:
		case <-timer.C:
			err = errors.Join(err, errors.New("callout: not drained"))
		}
	}
	running.Wait()
	if flushErr := s.cfg.Conn.FlushTimeout(stopTimeout); flushErr != nil && err == nil {
		err = fmt.Errorf("callout: last flush: %w", flushErr)
	}
	return err
}

// Outcomes, as the metric names them.
const (
	letAgentIn    = "agent"
	letOperatorIn = "operator"
	letAdminIn    = "admin"
	letPipelineIn = "pipeline"
	refused       = "refused"
	unavailable   = "unavailable"
	malformed     = "malformed"
)

func (s *Service) onRequest(ctx context.Context, m *nats.Msg) {
	request, err := jwt.DecodeAuthorizationRequestClaims(string(m.Data))
	if err != nil {
		s.answers.WithLabelValues(malformed).Inc()
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	user, outcome := s.decide(ctx, request)
	s.answers.WithLabelValues(outcome).Inc()
	answer, err := s.encode(request, user, outcome)
	if err == nil {
		err = m.Respond(answer)
	}
	if err != nil {
		s.cfg.Log.Error().Err(err).Msg("a sign-in could not be answered")
	}
	if user == nil {
		s.cfg.Log.Debug().Str("host", request.ClientInformation.Host).Str("outcome", outcome).Msg("sign-in refused")
	}
}

// decide gives the user that a token stands for, or none.
func (s *Service) decide(ctx context.Context, request *jwt.AuthorizationRequestClaims) (user *jwt.UserClaims, outcome string) {
	token := request.ConnectOptions.Token
	if token == "" {
		return nil, refused
	}
	hash := topology.TokenHash(token)
	if subtle.ConstantTimeCompare([]byte(hash), []byte(s.cfg.Keys.AdminTokenHash)) == 1 {
		user = newUser(request.UserNkey, "operator", topology.AccountAdmin, topology.OperatorRights(topology.BootstrapInbox(hash)))
		user.Limits.Payload = topology.MaxPayload
		return user, letOperatorIn
	}
	if !topology.ValidToken(token) {
		return nil, refused // by its checksum: costs no look-up
	}
	org, agent, expiresAt, err := s.cfg.Tokens.Token(ctx, hash)
	switch {
	case errors.Is(err, registry.ErrNotFound):
		return s.decideAdmin(ctx, request, hash)
	case err != nil:
		return nil, s.blind(err)
	}
	user = newUser(request.UserNkey, org+"."+agent, topology.AccountAgents,
		topology.AgentRights(org, agent, topology.BootstrapInbox(hash)))
	ends := time.Now().Add(s.cfg.Lifetime)
	if !expiresAt.IsZero() && expiresAt.Before(ends) {
		ends = expiresAt
	}
	user.Expires = ends.Unix()
	return user, letAgentIn
}

// decideAdmin gives the admin that a token which is no agent's stands for, or
// none.
func (s *Service) decideAdmin(ctx context.Context, request *jwt.AuthorizationRequestClaims, hash string) (*jwt.UserClaims, string) {
	org, admin, role, err := s.cfg.Tokens.AdminToken(ctx, hash)
	switch {
	case errors.Is(err, registry.ErrNotFound):
		return s.decidePipeline(ctx, request, hash)
	case err != nil:
		return nil, s.blind(err)
	}
	user := newUser(request.UserNkey, org+"."+admin, topology.AccountAdmin,
		topology.AdminRights(org, admin, role, topology.BootstrapInbox(hash)))
	user.Expires = time.Now().Add(s.cfg.Lifetime).Unix()
	return user, letAdminIn
}

// decidePipeline is the same for a token that is no admin's either.
func (s *Service) decidePipeline(ctx context.Context, request *jwt.AuthorizationRequestClaims, hash string) (*jwt.UserClaims, string) {
	org, id, err := s.cfg.Tokens.PipelineToken(ctx, hash)
	switch {
	case errors.Is(err, registry.ErrNotFound):
		return nil, refused
	case err != nil:
		return nil, s.blind(err)
	}
	user := newUser(request.UserNkey, org+"."+id, topology.AccountPipelines,
		topology.PipelineRights(org, id, topology.BootstrapInbox(hash)))
	user.Expires = time.Now().Add(s.cfg.Lifetime).Unix()
	return user, letPipelineIn
}

func (s *Service) blind(err error) (outcome string) {
	s.cfg.Log.Warn().Err(err).Msg("tokens cannot be looked up; nobody gets in")
	return unavailable
}

func newUser(key, name, account string, rights topology.Rights) *jwt.UserClaims {
	u := jwt.NewUserClaims(key)
	u.Name, u.Audience = name, account
	u.Permissions.Pub.Allow.Add(rights.Publish...)
	u.Permissions.Pub.Deny.Add(rights.DenyPublish...)
	u.Permissions.Sub.Allow.Add(rights.Subscribe...)
	u.Limits.Payload, u.Limits.Subs = topology.AgentPayload, subscriptionsMax
	return u
}

// encode signs the answer. What a refused client hears is the server's own
// word for it, the same for every reason.
func (s *Service) encode(request *jwt.AuthorizationRequestClaims, user *jwt.UserClaims, outcome string) ([]byte, error) {
	answer := jwt.NewAuthorizationResponseClaims(request.UserNkey)
	answer.Audience = request.Server.ID
	if user == nil {
		answer.Error = outcome
	} else {
		signed, err := user.Encode(s.issuer)
		if err != nil {
			return nil, fmt.Errorf("user: %w", err)
		}
		answer.Jwt = signed
	}
	signed, err := answer.Encode(s.issuer)
	return []byte(signed), err
}
