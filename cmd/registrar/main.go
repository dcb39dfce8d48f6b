// Command registrar owns orgs, pools and agents, and decides who may sign in
// at the NATS server.
package main

import (
	"context"
	"os"

	"tallystick/internal/app"
	"tallystick/internal/callout"
	"tallystick/internal/registrar"
	"tallystick/internal/registry"
	"tallystick/internal/worker"
)

func main() { os.Exit(app.Main("registrar", wire)) }

func wire(ctx context.Context, s *app.Shell) (app.Role, error) {
	directory, err := registry.OpenDirectory(ctx, s.JetStream)
	if err != nil {
		return nil, err
	}
	r, err := registrar.New(registrar.Config{Store: s.Store, Directory: directory, Log: s.Log})
	if err != nil {
		return nil, err
	}
	verbs, err := worker.NewAdmin(worker.AdminConfig{
		Name: "registrar", Conn: s.Admin, Verbs: r.Verbs(), Timeout: registrar.AdminTimeout, Log: s.Log,
	})
	if err != nil {
		return nil, err
	}
	keys, err := s.CalloutKeys()
	if err != nil {
		return nil, err
	}
	signIn, err := callout.New(callout.Config{Conn: s.Auth, Keys: keys, Tokens: directory, Log: s.Log})
	if err != nil {
		return nil, err
	}
	return app.Together{r, verbs, signIn}, nil
}
