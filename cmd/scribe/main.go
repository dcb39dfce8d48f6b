// Command scribe carries entries from the outboxes in Redis to the ledger.
package main

import (
	"os"

	"tallystick/internal/app"
	"tallystick/internal/wiring"
)

func main() { os.Exit(app.Main("scribe", wiring.Scribe)) }
