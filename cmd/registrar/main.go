// Command registrar owns structure and identity: it serves operators, keeps
// Redis's policies in step, and tells the NATS server whom to let in.
package main

import (
	"os"

	"tallystick/internal/app"
	"tallystick/internal/wiring"
)

func main() { os.Exit(app.Main("registrar", wiring.Registrar)) }
