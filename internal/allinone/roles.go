package allinone

import (
	"context"
	"errors"
	"path/filepath"

	"tallystick/internal/app"
	"tallystick/internal/callout"
	"tallystick/internal/ledger"
	"tallystick/internal/reaper"
	"tallystick/internal/reconciler"
	"tallystick/internal/registrar"
	"tallystick/internal/registry"
	"tallystick/internal/reserver"
	"tallystick/internal/scribe"
	"tallystick/internal/settler"
	"tallystick/internal/topology"
	"tallystick/internal/worker"
)

// roles are all workers in the order in which they start: the scribe carries
// what an earlier run left, the registrar lets people in, and the doors open
// last.
func roles() []*member {
	return []*member{
		{worker: topology.Scribe, wire: wireScribe},
		{worker: topology.Registrar, wire: wireRegistrar},
		{worker: topology.Reconciler, wire: wireReconciler},
		{worker: topology.Reaper, wire: wireReaper},
		{worker: topology.Settler, wire: wireSettler},
		{worker: topology.Reserver, wire: wireReserver},
	}
}

func wireScribe(ctx context.Context, s *app.Shell) (app.Role, error) {
	l, err := ledger.Open(ctx, s.JetStream)
	if err != nil {
		return nil, err
	}
	return scribe.New(scribe.Config{Store: s.Store, Ledger: l, AnchorPath: filepath.Join(s.Config.DataDir, "scribe.anchor"), Log: s.Log})
}

func wireReaper(ctx context.Context, s *app.Shell) (app.Role, error) {
	l, err := ledger.Open(ctx, s.JetStream)
	if err != nil {
		return nil, err
	}
	return reaper.New(reaper.Config{Store: s.Store, Ledger: l, Events: ledger.NewEvents(s.JetStream), Log: s.Log})
}

func wireReconciler(ctx context.Context, s *app.Shell) (app.Role, error) {
	l, err := ledger.Open(ctx, s.JetStream)
	if err != nil {
		return nil, err
	}
	epochs, err := registry.OpenDirectory(ctx, s.JetStream)
	if err != nil {
		return nil, err
	}
	r, err := reconciler.New(reconciler.Config{Store: s.Store, Ledger: l, Events: ledger.NewEvents(s.JetStream), Epochs: epochs, Log: s.Log})
	if err != nil {
		return nil, err
	}
	verbs, err := worker.NewAdmin(worker.AdminConfig{Name: topology.Reconciler, Conn: s.Admin, Verbs: r.Verbs(), Timeout: reconciler.AdminTimeout, Log: s.Log})
	if err != nil {
		return nil, err
	}
	return app.Together{r, verbs}, nil
}

func wireReserver(ctx context.Context, s *app.Shell) (app.Role, error) {
	cache, err := registry.Open(ctx, s.JetStream)
	if err != nil {
		return nil, err
	}
	s.OnClose(cache.Close)
	return reserver.New(reserver.Config{
		Worker: worker.Config{Agents: s.Agents, JetStream: s.JetStream, Log: s.Log}, Store: s.Store, Registry: cache, Log: s.Log,
	})
}

func wireSettler(ctx context.Context, s *app.Shell) (app.Role, error) {
	cache, err := registry.Open(ctx, s.JetStream)
	if err != nil {
		return nil, err
	}
	s.OnClose(cache.Close)
	return settler.New(settler.Config{
		Worker: worker.Config{Agents: s.Agents, JetStream: s.JetStream, Log: s.Log}, Admin: worker.AdminConfig{Conn: s.Admin, Log: s.Log},
		Store: s.Store, Registry: cache, Log: s.Log,
	})
}

func wireRegistrar(ctx context.Context, s *app.Shell) (app.Role, error) {
	if s.Credentials.Callout == nil {
		return nil, errors.New("the registrar's credentials hold no callout key")
	}
	directory, err := registry.OpenDirectory(ctx, s.JetStream)
	if err != nil {
		return nil, err
	}
	r, err := registrar.New(registrar.Config{Store: s.Store, Directory: directory, Log: s.Log})
	if err != nil {
		return nil, err
	}
	door, err := callout.New(callout.Config{Conn: s.Auth, Keys: *s.Credentials.Callout, Tokens: directory, Log: s.Log})
	if err != nil {
		return nil, err
	}
	verbs, err := worker.NewAdmin(worker.AdminConfig{Name: topology.Registrar, Conn: s.Admin, Verbs: r.Verbs(), Timeout: registrar.AdminTimeout, Log: s.Log})
	if err != nil {
		return nil, err
	}
	return app.Together{r, door, verbs}, nil
}
