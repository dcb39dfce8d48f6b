// Command scribe carries entries from the outboxes in Redis to the ledger.
package main

import (
	"context"
	"os"
	"path/filepath"

	"tallystick/internal/app"
	"tallystick/internal/ledger"
	"tallystick/internal/scribe"
)

func main() { os.Exit(app.Main("scribe", wire)) }

func wire(ctx context.Context, s *app.Shell) (app.Role, error) {
	l, err := ledger.Open(ctx, s.JetStream)
	if err != nil {
		return nil, err
	}
	cfg := scribe.Config{Store: s.Store, Ledger: l, Log: s.Log}
	if s.Config.DataDir != "" {
		cfg.AnchorPath = filepath.Join(s.Config.DataDir, "scribe.anchor")
	}
	return scribe.New(cfg)
}
