package app

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"tallystick/internal/topology"
)

// Setup makes streams, buckets and consumers on a server that was started by
// hand, as the one user who may.
func Setup(ctx context.Context, url string, creds topology.Credentials, replicas int, log zerolog.Logger) error {
	if creds.Worker != topology.Setup {
		return fmt.Errorf("these are the credentials of %q, not of %q", creds.Worker, topology.Setup)
	}
	u := creds.NATS.Broker
	nc, err := dialNATS(ctx, natsDial{
		url: url, worker: creds.Worker, account: "broker", user: u.User, password: u.Password, inbox: "_INBOX." + creds.Worker,
	}, log)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return fmt.Errorf("jetstream: %w", err)
	}
	return topology.Ensure(ctx, js, replicas)
}
