// Command reconciler compares counters with the ledger, answers operators and
// rebuilds Redis.
package main

import (
	"context"
	"os"

	"tallystick/internal/app"
	"tallystick/internal/ledger"
	"tallystick/internal/reconciler"
	"tallystick/internal/registry"
	"tallystick/internal/worker"
)

func main() { os.Exit(app.Main("reconciler", wire)) }

func wire(ctx context.Context, s *app.Shell) (app.Role, error) {
	l, err := ledger.Open(ctx, s.JetStream)
	if err != nil {
		return nil, err
	}
	epochs, err := registry.OpenDirectory(ctx, s.JetStream)
	if err != nil {
		return nil, err
	}
	r, err := reconciler.New(reconciler.Config{
		Store: s.Store, Ledger: l, Events: ledger.NewEvents(s.JetStream), Epochs: epochs, Log: s.Log,
	})
	if err != nil {
		return nil, err
	}
	verbs, err := worker.NewAdmin(worker.AdminConfig{
		Name: "reconciler", Conn: s.Admin, Verbs: r.Verbs(), Timeout: reconciler.AdminTimeout, Log: s.Log,
	})
	if err != nil {
		return nil, err
	}
	return app.Together{r, verbs}, nil
}
