package reserver

import (
	"fmt"
	"testing"

	"tallystick/internal/worker"
)

// BenchmarkHandle is the handler on a real Redis, in full batches.
func BenchmarkHandle(b *testing.B) {
	w := newWorld(b)
	w.pool("wide", "", map[string]int64{"tokens": 1 << 50})
	w.register(w.agent, "wide")
	const batch = 256
	reqs := make([]*worker.Request, batch)
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; n += batch {
		for i := range reqs {
			reqs[i] = w.request("reserve", fmt.Sprint("k", n+i), `{"amounts":{"tokens":1},"ttl_ms":60000}`)
		}
		for _, a := range w.h.Handle(b.Context(), reqs) {
			if a.Code != "" || a.Denied != "" {
				b.Fatalf("answer %s", a.Body)
			}
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
}
