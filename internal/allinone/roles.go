package allinone

import (
	"tallystick/internal/topology"
	"tallystick/internal/wiring"
)

// roles are all workers in the order in which they start: the scribe carries
// what an earlier run left, the registrar lets people in, and the doors open
// last.
func roles() []*member {
	return []*member{
		{worker: topology.Scribe, wire: wiring.Scribe},
		{worker: topology.Registrar, wire: wiring.Registrar},
		{worker: topology.Reconciler, wire: wiring.Reconciler},
		{worker: topology.Reaper, wire: wiring.Reaper},
		{worker: topology.Settler, wire: wiring.Settler},
		{worker: topology.Reserver, wire: wiring.Reserver},
	}
}
