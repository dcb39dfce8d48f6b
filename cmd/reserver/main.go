// Command reserver decides reserve, extend and charge at both doors, and
// answers balance, reservation and whoami.
package main

import (
	"context"
	"os"

	"tallystick/internal/app"
	"tallystick/internal/registry"
	"tallystick/internal/reserver"
	"tallystick/internal/worker"
)

func main() { os.Exit(app.Main("reserver", wire)) }

func wire(ctx context.Context, s *app.Shell) (app.Role, error) {
	cache, err := registry.Open(ctx, s.JetStream)
	if err != nil {
		return nil, err
	}
	s.OnClose(cache.Close)
	return reserver.New(reserver.Config{
		Worker:   worker.Config{Agents: s.Agents, JetStream: s.JetStream, Log: s.Log},
		Store:    s.Store,
		Registry: cache,
		Log:      s.Log,
	})
}
