// Package redisx is the only place that knows Redis: it builds keys, expands
// and runs the scripts of package lua, and turns their replies into the values
// of package budget.
//
// Requests are gathered in a [Batch] and travel as one pipeline, so that a
// worker's group commit is one round trip:
//
//	b := store.Batch()
//	p := b.Reserve(redisx.ReserveArgs{…})
//	b.Run(ctx)
//	// p.Decision or p.Err
//
// A denial is a Decision. An error wraps [budget.ErrUnavailable] where Redis
// could not be asked or may not answer now; its outcome may be unknown, and the
// caller repeats with the same key. Everything else is listed in budget's
// errors, or is a bug.
package redisx
