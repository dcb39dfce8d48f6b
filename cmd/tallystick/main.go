// Command tallystick is the command line of Tallystick, and with `up` the
// whole system in one process.
package main

import (
	"os"

	"tallystick/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdout, os.Stderr)) }
