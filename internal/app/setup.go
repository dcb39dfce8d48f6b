package app

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"tallystick/internal/topology"
)

// Setup makes streams, buckets and consumers on a server that was started by
// hand, as the one user who may.
func Setup(ctx context.Context, url string, creds topology.Credentials, replicas int, log zerolog.Logger) error {
	if creds.Worker != topology.Setup {
		return fmt.Errorf("these are the credentials of %q, not of %q", creds.Worker, topology.Setup)
	}
	return topology.EnsureAll(ctx, func(account string, u topology.User) (*nats.Conn, error) {
		return dialNATS(ctx, natsDial{
			url: url, worker: creds.Worker, account: account, user: u.User, password: u.Password, inbox: "_INBOX." + creds.Worker,
		}, log)
	}, creds, replicas)
}
