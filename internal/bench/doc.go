// Package bench measures Tallystick beside what it stands on, in one run on
// one machine: the raw script through redis-benchmark, both doors with and
// without the ledger, the scribe alone, a million outstanding reservations,
// and what people write by hand instead.
//
// The system runs inside the measuring process, which does nothing else while
// a window is open; the load comes from a child process, so that CPU time can
// be told apart: Redis (from its own INFO), Tallystick with its NATS server,
// and the client. Figures are medians of several short windows. A timing is
// printed and never fails anything.
package bench
