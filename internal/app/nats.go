package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
)

// natsDial is one connection of one worker: an account's user and how the
// connection behaves while the server is away.
type natsDial struct {
	url, worker, account string
	user, password       string
	inbox                string
	noReconnectBuffer    bool
}

// options never give up: a worker outlives its server. On AGENTS nothing is
// buffered while disconnected, because "published" there means that the
// server has it, and a decision that only sits in a buffer is none.
func (d natsDial) options(log zerolog.Logger) []nats.Option {
	log = log.With().Str(logConn, d.account).Logger()
	opts := []nats.Option{
		nats.Name("tallystick-" + d.worker + "-" + d.account),
		nats.UserInfo(d.user, d.password),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(200 * time.Millisecond),
		nats.ReconnectJitter(100*time.Millisecond, 500*time.Millisecond),
		nats.IgnoreAuthErrorAbort(),
		nats.Timeout(2 * time.Second),
		nats.PingInterval(10 * time.Second),
		nats.MaxPingsOutstanding(3),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn().Err(err).Msg("NATS connection lost")
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			log.Info().Str(logAddr, nc.ConnectedUrlRedacted()).Msg("NATS connection is back")
		}),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			e := log.Warn().Err(err)
			if sub != nil {
				e = e.Str(logSubject, sub.Subject)
			}
			e.Msg("NATS reports an error")
		}),
	}
	if d.inbox != "" {
		opts = append(opts, nats.CustomInboxPrefix(d.inbox))
	}
	if d.noReconnectBuffer {
		opts = append(opts, nats.ReconnectBufSize(-1))
	}
	return opts
}

// dialNATS connects, waiting for a server that is still starting until ctx
// ends. Refused credentials do not get better by waiting.
func dialNATS(ctx context.Context, d natsDial, log zerolog.Logger) (*nats.Conn, error) {
	retry := time.NewTicker(200 * time.Millisecond)
	defer retry.Stop()
	for {
		nc, err := nats.Connect(d.url, d.options(log)...)
		if err == nil {
			return nc, nil
		}
		err = fmt.Errorf("NATS at %s, account %s: %w", d.url, d.account, err)
		if errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) {
			return nil, fmt.Errorf("%w.\nhint: the credentials file and the server's nats.conf come from the same `tallystick credentials` run", err)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w.\nhint: is the server running, and reachable from here?", err)
		case <-retry.C:
		}
	}
}
