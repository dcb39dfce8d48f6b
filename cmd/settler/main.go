// Command settler decides settle and release at both doors.
package main

import (
	"os"

	"tallystick/internal/app"
	"tallystick/internal/wiring"
)

func main() { os.Exit(app.Main("settler", wiring.Settler)) }
