// Command reaper expires overdue reservations, returns lapsed money and turns
// each expiry on the ledger into an event.
package main

import (
	"os"

	"tallystick/internal/app"
	"tallystick/internal/wiring"
)

func main() { os.Exit(app.Main("reaper", wiring.Reaper)) }
