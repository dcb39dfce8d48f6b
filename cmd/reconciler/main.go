// Command reconciler compares counters with the ledger, answers operators and
// rebuilds Redis.
package main

import (
	"os"

	"tallystick/internal/app"
	"tallystick/internal/wiring"
)

func main() { os.Exit(app.Main("reconciler", wiring.Reconciler)) }
