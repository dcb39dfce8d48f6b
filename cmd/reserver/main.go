// Command reserver decides reserve, extend and charge at both doors.
package main

import (
	"os"

	"tallystick/internal/app"
	"tallystick/internal/wiring"
)

func main() { os.Exit(app.Main("reserver", wiring.Reserver)) }
