// Package wiring makes each role from a connected process shell. A worker that
// runs alone and the same worker inside `tallystick up` are wired here, once.
package wiring

import (
	"context"
	"errors"
	"maps"
	"path/filepath"

	"tallystick/internal/app"
	"tallystick/internal/callout"
	"tallystick/internal/checkpoint"
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
	"tallystick/pkg/events"
)

// Scribe wires the role that carries entries to the ledger.
func Scribe(ctx context.Context, s *app.Shell) (app.Role, error) {
	l, err := ledger.Open(ctx, s.JetStream)
	if err != nil {
		return nil, err
	}
	losses, err := registry.OpenLosses(ctx, s.JetStream)
	if err != nil {
		return nil, err
	}
	cfg := scribe.Config{Store: s.Store, Ledger: l, Losses: losses, Events: ledger.NewEvents(s.JetStream), Log: s.Log}
	if s.Config.DataDir != "" { // without one the anchor is in Redis alone
		cfg.AnchorPath = filepath.Join(s.Config.DataDir, "scribe.anchor")
	}
	return scribe.New(cfg)
}

// Reaper wires the role that ends what is overdue.
func Reaper(ctx context.Context, s *app.Shell) (app.Role, error) {
	l, err := ledger.Open(ctx, s.JetStream)
	if err != nil {
		return nil, err
	}
	return reaper.New(reaper.Config{Store: s.Store, Ledger: l, Events: ledger.NewEvents(s.JetStream), Log: s.Log})
}

// Reconciler wires the role that compares, verifies and rebuilds, with its verbs for operators.
func Reconciler(ctx context.Context, s *app.Shell) (app.Role, error) {
	l, err := ledger.Open(ctx, s.JetStream)
	if err != nil {
		return nil, err
	}
	epochs, err := registry.OpenDirectory(ctx, s.JetStream)
	if err != nil {
		return nil, err
	}
	folds, err := registry.OpenObjects(ctx, s.JetStream, events.StoreFolds)
	if err != nil {
		return nil, err
	}
	losses, err := registry.OpenLosses(ctx, s.JetStream)
	if err != nil {
		return nil, err
	}
	cfg := reconciler.Config{
		Store: s.Store, Ledger: l, Events: ledger.NewEvents(s.JetStream), Epochs: epochs, Folds: folds, Losses: losses, Log: s.Log,
		CheckConfig: func(ctx context.Context) (drift, err error) { return topology.CheckKept(ctx, s.JetStream) },
	}
	cfg.Evidence.Orgs = epochs
	if cfg.Evidence.Files, err = registry.OpenObjects(ctx, s.JetStream, events.StoreEvidence); err != nil {
		return nil, err
	}
	if cfg.Evidence.Uploads, err = registry.OpenUploads(ctx, s.JetStream); err != nil {
		return nil, err
	}
	if s.AuditJetStream != nil { // credentials of an older installation have no user there
		if cfg.Mirror, err = ledger.OpenMirror(ctx, s.AuditJetStream); err != nil {
			return nil, err
		}
	}
	if err := checkpoints(ctx, s, &cfg); err != nil {
		return nil, err
	}
	r, err := reconciler.New(cfg)
	if err != nil {
		return nil, err
	}
	reports, err := reportsOf(ctx, s, l, r)
	if err != nil {
		return nil, err
	}
	served := r.Verbs()
	maps.Copy(served, reports.Verbs())
	verbs, err := worker.NewAdmin(worker.AdminConfig{Name: topology.Reconciler, Conn: s.Admin, Verbs: served, Admins: epochs, Timeout: reconciler.AdminTimeout, Log: s.Log})
	if err != nil {
		return nil, err
	}
	return app.Together{r, reports, verbs}, nil
}

// reportsOf wires the reports that the reconciler makes.
func reportsOf(ctx context.Context, s *app.Shell, l *ledger.Ledger, r *reconciler.Reconciler) (*reconciler.Reports, error) {
	objects, err := registry.OpenObjects(ctx, s.JetStream, events.StoreReports)
	if err != nil {
		return nil, err
	}
	return reconciler.NewReports(reconciler.ReportsConfig{
		Store: s.Store, Ledger: l, Events: ledger.NewEvents(s.JetStream), Objects: objects, Orgs: r.Orgs, Log: s.Log, NoDaily: s.Config.NoDailyReports,
	})
}

// checkpoints gives the reconciler what it signs with, if it is told of a key.
func checkpoints(ctx context.Context, s *app.Shell, cfg *reconciler.Config) error {
	if s.Config.CheckpointKey == "" {
		s.Log.Warn().Msg("no checkpoint key: checkpoints are not signed")
		return nil
	}
	if s.AuditJetStream == nil {
		return errors.New("the reconciler's credentials name no user in account AUDIT")
	}
	keys := checkpoint.NewKeys(s.Config.CheckpointKey)
	if err := keys.Check(); err != nil {
		return err
	}
	kept, err := registry.OpenCheckpoints(ctx, s.AuditJetStream)
	if err != nil {
		return err
	}
	cfg.Signer, cfg.Checkpoints, cfg.CheckpointDir = keys, kept, s.Config.CheckpointDir
	return nil
}

// Reserver wires the role that reserves, extends and charges.
func Reserver(ctx context.Context, s *app.Shell) (app.Role, error) {
	cache, err := registry.Open(ctx, s.JetStream)
	if err != nil {
		return nil, err
	}
	s.OnClose(cache.Close)
	if err := cache.FollowPrincipals(ctx); err != nil {
		return nil, err
	}
	return reserver.New(reserver.Config{
		Worker: worker.Config{Agents: s.Agents, JetStream: s.JetStream, KeepDecisions: cache.KeepsDecisions, Log: s.Log}, Store: s.Store, Registry: cache, Log: s.Log,
	})
}

// Settler wires the role that settles and releases, for agents and operators.
func Settler(ctx context.Context, s *app.Shell) (app.Role, error) {
	cache, err := registry.Open(ctx, s.JetStream)
	if err != nil {
		return nil, err
	}
	s.OnClose(cache.Close)
	return settler.New(settler.Config{
		Worker: worker.Config{Agents: s.Agents, JetStream: s.JetStream, KeepDecisions: cache.KeepsDecisions, Log: s.Log},
		Admin:  worker.AdminConfig{Conn: s.Admin, Admins: cache, Log: s.Log},
		Store:  s.Store, Registry: cache, Log: s.Log,
	})
}

// Registrar wires the role that owns structure and identity, with its verbs for operators and agents, and the auth callout.
func Registrar(ctx context.Context, s *app.Shell) (app.Role, error) {
	if s.Credentials.Callout == nil {
		return nil, errors.New("the registrar's credentials hold no callout key")
	}
	directory, err := registry.OpenDirectory(ctx, s.JetStream)
	if err != nil {
		return nil, err
	}
	r, err := registrar.New(registrar.Config{
		Store: s.Store, Directory: directory, Consumers: registry.NewConsumers(s.JetStream), Log: s.Log,
	})
	if err != nil {
		return nil, err
	}
	door, err := callout.New(callout.Config{Conn: s.Auth, Keys: *s.Credentials.Callout, Tokens: directory, Log: s.Log})
	if err != nil {
		return nil, err
	}
	verbs, err := worker.NewAdmin(worker.AdminConfig{Name: topology.Registrar, Conn: s.Admin, Verbs: r.Verbs(), Admins: directory, Timeout: registrar.AdminTimeout, Log: s.Log})
	if err != nil {
		return nil, err
	}
	agents, err := r.NewDoor(worker.Config{Agents: s.Agents, JetStream: s.JetStream, Log: s.Log})
	if err != nil {
		return nil, err
	}
	return app.Together{r, door, verbs, agents}, nil
}
