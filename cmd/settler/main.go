// Command settler decides settle and release at both doors, and for
// operators.
package main

import (
	"context"
	"os"

	"tallystick/internal/app"
	"tallystick/internal/registry"
	"tallystick/internal/settler"
	"tallystick/internal/worker"
)

func main() { os.Exit(app.Main("settler", wire)) }

func wire(ctx context.Context, s *app.Shell) (app.Role, error) {
	cache, err := registry.Open(ctx, s.JetStream)
	if err != nil {
		return nil, err
	}
	s.OnClose(cache.Close)
	return settler.New(settler.Config{
		Worker:   worker.Config{Agents: s.Agents, JetStream: s.JetStream, Log: s.Log},
		Admin:    worker.AdminConfig{Conn: s.Admin, Log: s.Log},
		Store:    s.Store,
		Registry: cache,
		Log:      s.Log,
	})
}
