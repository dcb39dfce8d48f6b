package redisx

import (
	"testing"
)

// BenchmarkReserve is one reserve of one limit, sent in the pipelines that a
// worker sends.
func BenchmarkReserve(b *testing.B) {
	for _, size := range []int{1, 256} {
		b.Run(map[bool]string{true: "alone", false: "pipelined"}[size == 1], func(b *testing.B) {
			w := newBench(b)
			limit := w.pool("research", PolicyLimit{Cap: 1 << 50})
			b.ReportAllocs()
			for n := 0; n < b.N; n += size {
				batch := w.store.Batch()
				sent := make([]*Pending, min(size, b.N-n))
				for i := range sent {
					sent[i] = batch.Reserve(w.reserveArgs(w.key(), 1, limit))
				}
				batch.Run(b.Context())
				for _, p := range sent {
					if p.Err != nil {
						b.Fatal(p.Err)
					}
				}
			}
		})
	}
}

// BenchmarkReserveCommand is what building the call costs, without Redis.
func BenchmarkReserveCommand(b *testing.B) {
	w := newBench(b)
	args := w.reserveArgs(w.key(), 1, w.pool("research", PolicyLimit{Cap: 1 << 50}))
	c := &reserveCall{store: w.store, args: args}
	b.ReportAllocs()
	for b.Loop() {
		if _, keys, _ := c.command(); len(keys) == 0 {
			b.Fatal("no keys")
		}
	}
}

// BenchmarkLifecycle is a reserve and its settle.
func BenchmarkLifecycle(b *testing.B) {
	w := newBench(b)
	limit := w.pool("research", PolicyLimit{Cap: 1 << 50})
	b.ReportAllocs()
	for b.Loop() {
		key := w.key()
		args := w.reserveArgs(key, 10, limit)
		batch := w.store.Batch()
		reserve := batch.Reserve(args)
		settle := batch.Settle(SettleArgs{
			Caller: w.agent, Execution: args.Execution, Key: key, Fingerprint: args.Fingerprint,
			Actual: args.Amounts, Status: "success", Final: true, Guess: args.Path,
		})
		batch.Run(b.Context())
		if reserve.Err != nil || settle.Err != nil {
			b.Fatal(reserve.Err, settle.Err)
		}
	}
}
