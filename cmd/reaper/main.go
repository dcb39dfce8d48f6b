// Command reaper expires overdue reservations, returns lapsed money and turns
// each expiry on the ledger into an event.
package main

import (
	"context"
	"os"

	"tallystick/internal/app"
	"tallystick/internal/ledger"
	"tallystick/internal/reaper"
)

func main() { os.Exit(app.Main("reaper", wire)) }

func wire(ctx context.Context, s *app.Shell) (app.Role, error) {
	l, err := ledger.Open(ctx, s.JetStream)
	if err != nil {
		return nil, err
	}
	return reaper.New(reaper.Config{Store: s.Store, Ledger: l, Events: ledger.NewEvents(s.JetStream), Log: s.Log})
}
