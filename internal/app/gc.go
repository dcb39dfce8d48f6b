package app

import (
	"os"
	"runtime/debug"
)

// gcPercent lets the heap grow to five times what lives before it is swept.
// What lives is small (queues are bounded), and sweeping was a tenth of the
// time of a busy worker.
const gcPercent = 400

// TuneGC sets the process's garbage collection, unless GOGC says otherwise.
func TuneGC() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}
